#include <corewire/rdma/channel/introduction.hh>

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace corewire::rdma {

namespace {

constexpr std::uint32_t largest_24_bits = 0xff'ffff;

bool is_ipv4(const ibv_gid& gid) noexcept { return verbs::port_address{.gid = gid}.is_ipv4(); }

/// Could be a port's: neither nothing nor a group.
bool is_one_port(const ibv_gid& gid) noexcept {
    if (std::all_of(std::begin(gid.raw), std::end(gid.raw), [](std::uint8_t b) { return b == 0; }) || gid.raw[0] == 0xff) return false;
    return !is_ipv4(gid) || ipv4(gid.raw[12], gid.raw[13], gid.raw[14], gid.raw[15]).is_unicast();
}

std::string_view name_of_link(std::uint8_t link) noexcept { return link == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand"; }

std::string kind_of_address(const rc_introduction& i) {
    if (i.link == IBV_LINK_LAYER_INFINIBAND) return fmt::format("{} is of an InfiniBand subnet", verbs::to_string(i.end.gid));
    return fmt::format("{} is of RoCE version {} and IPv{}", verbs::to_string(i.end.gid), i.gid_type == IBV_GID_TYPE_ROCE_V2 ? 2 : 1,
                       is_ipv4(i.end.gid) ? 4 : 6);
}

} // namespace

std::array<std::byte, rc_frame::wire_size> rc_frame::to_wire() const noexcept {
    std::array<std::byte, wire_size> out{};
    store_be32(out.data(), magic);
    store_be16(out.data() + 4, spoken);
    out[6] = static_cast<std::byte>(what);
    out[7] = static_cast<std::byte>(size);
    return out;
}

std::optional<rc_frame> rc_frame::from_wire(byte_span bytes) noexcept {
    if (bytes.size() < wire_size || load_be32(bytes.data()) != magic) return std::nullopt;
    const rc_frame f{static_cast<kind>(bytes[6]), std::to_integer<std::uint8_t>(bytes[7]), load_be16(bytes.data() + 4)};
    switch (f.what) {
    case kind::introduction: return f.spoken == version && f.size != rc_introduction::wire_size ? std::nullopt : std::optional(f);
    case kind::ready: return f.spoken == version && f.size != 0 ? std::nullopt : std::optional(f);
    case kind::refusal: return f.size > longest_sentence ? std::nullopt : std::optional(f);
    }
    return f.spoken == version ? std::nullopt : std::optional(f);
}

std::array<std::byte, rc_introduction::wire_size> rc_introduction::to_wire() const noexcept {
    std::array<std::byte, wire_size> out{};
    std::byte* const b = out.data();
    store_be32(b, end.queue_pair);
    store_be32(b + 4, end.first_sequence);
    std::memcpy(b + 8, end.gid.raw, 16);
    store_be16(b + 24, end.lid);
    store_be16(b + 26, partition);
    const std::uint8_t small[] = {link, path_mtu, port, retries, not_ready_retries, reads_as_responder, reads_as_initiator, gid_type};
    std::memcpy(b + 28, small, sizeof small);
    const auto told = hello.to_wire();
    std::memcpy(b + 36, told.data(), told.size());
    return out;
}

std::optional<rc_introduction> rc_introduction::from_wire(byte_span bytes) noexcept {
    if (bytes.size() != wire_size) return std::nullopt;
    const std::byte* const b = bytes.data();
    const auto small = [b](std::size_t at) { return std::to_integer<std::uint8_t>(b[at]); };
    rc_introduction i;
    i.end.queue_pair = load_be32(b);
    i.end.first_sequence = load_be32(b + 4);
    std::memcpy(i.end.gid.raw, b + 8, 16);
    i.end.lid = load_be16(b + 24);
    i.partition = load_be16(b + 26);
    i.link = small(28);
    i.path_mtu = small(29);
    i.port = small(30);
    i.retries = small(31);
    i.not_ready_retries = small(32);
    i.reads_as_responder = small(33);
    i.reads_as_initiator = small(34);
    i.gid_type = small(35);
    // Queue pairs 0 and 1 are the subnet's own, all ones is a group.
    if (i.end.queue_pair < 2 || i.end.queue_pair >= largest_24_bits || i.end.first_sequence > largest_24_bits) return std::nullopt;
    const bool infiniband = i.link == IBV_LINK_LAYER_INFINIBAND;
    if (!is_one_port(i.end.gid) || (!infiniband && i.link != IBV_LINK_LAYER_ETHERNET)) return std::nullopt;
    if (infiniband ? i.gid_type != IBV_GID_TYPE_IB : i.gid_type != IBV_GID_TYPE_ROCE_V1 && i.gid_type != IBV_GID_TYPE_ROCE_V2)
        return std::nullopt;
    if (infiniband ? i.end.lid == 0 || i.end.lid >= 0xc000 : i.end.lid != 0) return std::nullopt; // from there on they are groups'
    if (i.path_mtu < IBV_MTU_256 || i.path_mtu > IBV_MTU_4096 || i.port == 0) return std::nullopt;
    if (i.retries > 7 || i.not_ready_retries > 7) return std::nullopt;
    const auto hello = rc_hello::from_wire(bytes.subspan(36));
    if (!hello) return std::nullopt;
    i.hello = *hello;
    return i;
}

std::string rc_introduction::refused_by(const rc_introduction& ours) const {
    if (!may_be_asked(retries, not_ready_retries))
        return fmt::format("the peer asks to be sent {} and {} times what it does not acknowledge or take, which may be for ever", retries,
                           not_ready_retries);
    if (link != ours.link) return fmt::format("the peer's port is on {}, ours on {}", name_of_link(link), name_of_link(ours.link));
    constexpr unsigned number = 0x7fff; // without the bit that says full or limited member
    if ((partition & number) != (ours.partition & number) || ((partition | ours.partition) & ~number) == 0)
        return fmt::format("the peer's port is in partition {:#x}, ours in {:#x}", partition, ours.partition);
    if (!is_reached_from(ours.end.gid, ours.gid_type))
        return fmt::format("the addresses of the two ports do not reach each other: the peer's {}, ours {} "
                           "(over_options::gid_index chooses)",
                           kind_of_address(*this), kind_of_address(ours));
    return {};
}

bool rc_introduction::is_reached_from(const ibv_gid& gid, std::uint8_t type) const noexcept {
    if (link == IBV_LINK_LAYER_INFINIBAND) return std::memcmp(gid.raw, end.gid.raw, 8) == 0; // the subnet's prefix
    return type == gid_type && is_ipv4(gid) == is_ipv4(end.gid);
}

} // namespace corewire::rdma
