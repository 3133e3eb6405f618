// ring<T> against std::deque, and that a row is moved by its shorter side.
#include <corewire/net/tcp/ring.hh>
#include <corewire/reactor/base/random.hh>

#include <boost/test/unit_test.hpp>

#include <deque>
#include <memory>

using namespace corewire;

namespace {

struct counted {
    static inline unsigned moves = 0;
    counted() = default;
    counted(counted&& o) noexcept : value(std::move(o.value)) { ++moves; }
    counted& operator=(counted&& o) noexcept {
        value = std::move(o.value);
        ++moves;
        return *this;
    }
    std::unique_ptr<int> value;
};

} // namespace

BOOST_AUTO_TEST_SUITE(ring)

BOOST_AUTO_TEST_CASE(a_ring_is_a_row_whatever_is_inserted_and_erased) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        random_generator random(seed);
        tcp::ring<std::unique_ptr<int>> row;
        std::deque<int> model;
        for (int step = 0; step < 2000; ++step) {
            const auto at = [&](std::size_t n) { return static_cast<std::uint32_t>(random.below(n)); };
            switch (at(step % 400 < 200 ? 4 : 6)) { // it grows, and shrinks
            case 0:
                row.push_back() = std::make_unique<int>(step);
                model.push_back(step);
                break;
            case 1:
            case 2:
            case 3: {
                const std::uint32_t i = at(model.size() + 1);
                std::unique_ptr<int>& fresh = row.insert(i);
                BOOST_REQUIRE(fresh == nullptr);
                fresh = std::make_unique<int>(step);
                model.insert(model.begin() + i, step);
                break;
            }
            case 4:
                if (model.empty()) break;
                row.pop_front();
                model.pop_front();
                break;
            default: {
                const std::uint32_t i = at(model.size() + 1), n = at(std::min<std::size_t>(model.size() - i, 5) + 1);
                row.erase(i, n);
                model.erase(model.begin() + i, model.begin() + i + n);
            }
            }
            BOOST_REQUIRE(row.size() == model.size());
            for (std::uint32_t i = 0; i < row.size(); ++i) BOOST_REQUIRE(*row[i] == model[i]);
        }
    }
}

BOOST_AUTO_TEST_CASE(what_comes_in_descending_order_moves_nothing) {
    tcp::ring<counted> row;
    for (int i = 0; i < 1000; ++i) row.insert(0);
    counted::moves = 0;
    for (int i = 0; i < 20; ++i) row.insert(1); // within the block of 1,024
    for (int i = 0; i < 20; ++i) row.erase(2);
    BOOST_TEST(counted::moves <= 20u * 2 + 20u * 3);
}

BOOST_AUTO_TEST_SUITE_END()
