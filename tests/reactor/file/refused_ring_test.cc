// Files over a ring whose queue is full and whose kernel takes nothing for a while.
#include "file_fixture.hh"

#include <corewire/reactor/file/file_writer.hh>
#include <corewire/reactor/file/uring.hh>
#include <corewire/reactor/file/uring_setup.hh>

#include <memory>
#include <optional>

namespace corewire::testing {

namespace {

/// While it lives the kernel refuses, and the ring's queue has no room: what there was is filled with requests for nothing.
class full_ring {
public:
    full_ring(file_world& world, int error, std::uint64_t times = ~std::uint64_t{0})
        : ring_(world.loop.io()), refusal_(std::in_place, error, times) {
        for (nop& each : nops_) {
            if (io_uring_sq_space_left(&ring_.native()) == 0) break;
            ring_.start(each, [](io_uring_sqe& entry) { io_uring_prep_nop(&entry); });
        }
        BOOST_REQUIRE(io_uring_sq_space_left(&ring_.native()) == 0);
    }
    ~full_ring() {
        refusal_.reset();
        for (const nop& each : nops_) ring_.wait(each);
    }
    full_ring(const full_ring&) = delete;

private:
    struct nop final : uring_operation {
        nop() noexcept : uring_operation([](uring_operation&, int, unsigned) noexcept {}) {}
    };
    uring& ring_;
    std::optional<submissions_refused> refusal_;
    std::vector<nop> nops_{uring::entries};
};

/// A request that remembers.
struct probe final : io_request {
    explicit probe(const io_arguments& a)
        : io_request(a, [](io_request& r, int rc) noexcept {
              auto& self = static_cast<probe&>(r);
              ++self.completions;
              self.result = rc;
          }) {}
    int completions = 0;
    int result = 0;
};

task<> write_all(std::string path, const std::string& text, bool& done) {
    file_writer out(co_await file::create(path), {.buffer_size = 32 * 1024, .buffers = 4});
    co_await out.write(text);
    co_await out.close();
    done = true;
}

} // namespace

BOOST_AUTO_TEST_SUITE(refused_ring)

BOOST_AUTO_TEST_CASE(a_writer_gets_every_byte_into_the_file_through_a_ring_that_refuses_again_and_again) {
    const std::string text = pattern(1 << 20);
    for (const int error : {EAGAIN, EBUSY}) {
        file_world world;
        bool done = false;
        {
            const full_ring full(world, error);
            spawn(write_all(world.directory / "a", text, done));
            world.turn(20);
            BOOST_TEST(!std::filesystem::exists(world.directory / "a"));
        }
        const auto enough = std::chrono::steady_clock::now() + std::chrono::minutes{1};
        while (!done && std::chrono::steady_clock::now() < enough) {
            {
                const full_ring full(world, error);
                world.turn(20);
            }
            world.turn(1);
        }
        BOOST_REQUIRE(done);
        BOOST_TEST((contents(world.directory / "a") == text));
        BOOST_TEST(world.engine().statistics().refused >= 1u);
        BOOST_TEST(world.loop.io().statistics().refused >= 1u);
        BOOST_TEST(world.engine().statistics().failed == 0u);
        BOOST_TEST(world.engine().operations().in_flight() == 0u);
    }
}

BOOST_AUTO_TEST_CASE(a_request_is_cancelled_while_the_ring_refuses_it) {
    file_world world;
    put(world.directory / "a", pattern(64));
    file f = world.run(file::open(world.directory / "a"));
    std::array<std::byte, 64> first_bytes{}, second_bytes{};
    probe queued(f.bytes_at(io_opcode::read, first_bytes.data(), first_bytes.size(), 0, -1));
    probe refused(f.bytes_at(io_opcode::read, second_bytes.data(), second_bytes.size(), 0, -1));
    {
        world.engine().submit(queued); // into the queue, which the kernel then does not take
        const full_ring full(world, EAGAIN);
        world.engine().submit(refused);
        world.turn(5);
        BOOST_TEST(world.engine().statistics().refused == 1u);
        world.engine().cancel(refused);
        BOOST_TEST(refused.completions == 1); // the kernel has never heard of it
        BOOST_TEST(refused.result == -ECANCELED);
        world.engine().cancel(queued);
        world.turn(5);
        BOOST_TEST(queued.completions == 0);
    }
    world.turn_until([&] { return queued.completions == 1; });
    world.turn();
    BOOST_TEST(queued.completions == 1);
    BOOST_TEST((queued.result == -ECANCELED || queued.result == 64)); // it was done before the kernel heard of the cancelling
    BOOST_TEST(refused.completions == 1);
    BOOST_TEST((second_bytes[0] == std::byte{0}));
    BOOST_TEST(world.engine().operations().in_flight() == 0u);
}

BOOST_AUTO_TEST_CASE(a_destroyed_wait_takes_its_buffer_back_from_a_ring_that_refuses) {
    file_world world;
    put(world.directory / "a", pattern(1 << 16));
    file f = world.run(file::open(world.directory / "a"));
    for (const bool fills_first : {true, false}) { // refused, or in the queue
        auto into = std::make_unique<std::vector<std::byte>>(1 << 16);
        std::optional<full_ring> full;
        if (fills_first) full.emplace(world, EBUSY, 50);
        task<std::size_t> whole = f.read_exactly(mutable_byte_span{*into}, 0);
        whole.handle().resume();
        if (!fills_first) full.emplace(world, EBUSY, 50);
        world.turn(3);
        BOOST_TEST(world.engine().operations().in_flight() == 1u);
        whole = {};
        into.reset(); // the sanitizers look on
        BOOST_TEST(world.engine().operations().in_flight() == 0u);
        full.reset();
        world.turn();
    }
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace corewire::testing
