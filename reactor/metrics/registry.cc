#include <corewire/reactor/metrics/registry.hh>

#include <corewire/reactor/loop/reactor.hh>

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <stdexcept>

namespace corewire {

namespace {

constexpr std::size_t max_bounds = 64;
constexpr std::uint32_t series_chunk = 256;         ///< reserved at once
constexpr std::uint32_t string_chunk = 64 * 1024;

void store(std::uint64_t& to, std::uint64_t value) noexcept { __atomic_store_n(&to, value, __ATOMIC_RELAXED); }

std::uint64_t load_counter(const void* at) noexcept { return *static_cast<const volatile std::uint64_t*>(at); }

} // namespace

std::span<const std::uint64_t> duration_bounds() noexcept {
    static constexpr std::array<std::uint64_t, 22> bounds{
        1'000,      2'000,      5'000,       10'000,      20'000,      50'000,        100'000,       200'000,
        500'000,    1'000'000,  2'000'000,   5'000'000,   10'000'000,  20'000'000,    50'000'000,    100'000'000,
        200'000'000, 500'000'000, 1'000'000'000, 2'000'000'000, 5'000'000'000, 10'000'000'000};
    return bounds;
}

metric_registry::metric_registry(metrics_page& to, unsigned shard, std::string labels)
    : page_(to), shard_(shard), section_(to.section(shard)), labels_(std::move(labels)) {}

metric_registry* metric_registry::current_or_null() noexcept {
    reactor* here = reactor::current_or_null();
    return here == nullptr ? nullptr : static_cast<metric_registry*>(here->attached(reactor::attachment::metrics));
}

// ---- registering ----

metric_registry::series_id metric_registry::add(std::string_view name, std::string_view help, metric_kind kind,
                                                const std::uint64_t& value, metric_unit unit, std::string_view labels) {
    return insert(name, help, kind, unit, labels, 0, {.at = &value});
}

metric_registry::series_id metric_registry::add(std::string_view name, std::string_view help, metric_kind kind,
                                                metric_reader read, const void* of, metric_unit unit, std::string_view labels) {
    return insert(name, help, kind, unit, labels, 0, {.at = of, .read = read});
}

metric_registry::series_id metric_registry::add(std::string_view name, std::string_view help, const histogram& from,
                                                std::span<const std::uint64_t> bounds, metric_unit unit, std::string_view labels) {
    if (bounds.empty() || bounds.size() > max_bounds || !std::is_sorted(bounds.begin(), bounds.end()))
        throw std::invalid_argument(fmt::format("metric {}: 1 to {} ascending bounds", name, max_bounds));
    return insert_histogram(name, help, bounds, unit, labels, {.at = &from, .values = &from});
}

metric_registry::series_id metric_registry::add(std::string_view name, std::string_view help, const log2_histogram& from,
                                                metric_unit unit, std::string_view labels) {
    static_assert(log2_histogram::bound_count <= max_bounds);
    return insert_histogram(name, help, log2_histogram::bounds(), unit, labels, {.at = &from, .powers = &from});
}

metric_registry::series_id metric_registry::insert_histogram(std::string_view name, std::string_view help,
                                                             std::span<const std::uint64_t> bounds, metric_unit unit,
                                                             std::string_view labels, const source& from) {
    const series_id id =
        insert(name, help, metric_kind::histogram, unit, labels, static_cast<std::uint16_t>(bounds.size()), from);
    if (id != refused_id)
        for (std::size_t i = 0; i < bounds.size(); ++i) values()[entries()[id].value + i] = bounds[i];
    return id;
}

metric_registry::series_id metric_registry::insert(std::string_view name, std::string_view help, metric_kind kind,
                                                   metric_unit unit, std::string_view labels, std::uint16_t buckets,
                                                   const source& from) {
    if (!valid_metric_name(name)) throw std::invalid_argument(fmt::format("'{}' is no name of a metric", name));
    if (help.empty() || help.find('\n') != help.npos || help.size() > max_metric_help)
        throw std::invalid_argument(fmt::format("metric {}: its help is one line", name));
    const auto known_family = families_.find(std::string(name));
    if (known_family != families_.end()) {
        const family& f = known_family->second;
        if (f.kind != kind || f.unit != unit || text(f.help.at, f.help.size) != help)
            throw std::invalid_argument(fmt::format("metric {}: registered before with another kind, unit or help", name));
    }
    const std::string all_labels = join_labels(labels_, labels);
    if (all_labels.size() > max_metric_labels) throw std::invalid_argument(fmt::format("metric {}: its labels are too long", name));
    const std::string key = fmt::format("{}{{{}}}", name, all_labels);
    const std::uint32_t needs = buckets == 0 ? 1 : 2u * buckets + 2;

    series_id id;
    if (const auto known = known_.find(key); known != known_.end()) {
        id = known->second;
        page::series& again = entries()[id];
        if (sources_[id].at != nullptr) throw std::invalid_argument(fmt::format("metric {} is registered already", key));
        if (again.buckets != buckets) return refuse();
    } else {
        const std::size_t strings = all_labels.size() + (known_family == families_.end() ? name.size() + help.size() : 0);
        if (sources_.size() == page::series_capacity || !room(strings, needs)) return refuse();
        id = static_cast<series_id>(sources_.size());
        const family f = known_family != families_.end() ? known_family->second
                                                         : family{kind, unit, intern(name), intern(help)};
        families_.try_emplace(std::string(name), f);
        const place own = intern(all_labels);
        entries()[id] = {f.name.at, f.help.at, own.at, f.name.size, f.help.size, own.size, static_cast<std::uint8_t>(kind),
                         static_cast<std::uint8_t>(unit), values_used_, buckets, 0};
        values_used_ += needs;
        sources_.emplace_back();
        known_.emplace(key, id);
    }
    sources_[id] = from;
    ++live_;
    ++generation_;
    entries()[id].live = 1;
    __atomic_store_n(&head().series_count, static_cast<std::uint32_t>(sources_.size()), __ATOMIC_RELEASE);
    store(head().generation, generation_);
    return id;
}

metric_registry::series_id metric_registry::refuse() noexcept {
    ++refused_;
    return refused_id;
}

/// Whether the section holds so much more; asks the file system for room, a chunk at a time.
bool metric_registry::room(std::size_t strings, std::size_t value_count) noexcept {
    if (strings_used_ + strings > page::string_capacity || values_used_ + value_count > page::value_capacity) return false;
    const auto grow = [&](std::uint32_t& reserved, std::size_t wanted, std::uint32_t chunk, std::size_t capacity, std::size_t at,
                          std::size_t unit) {
        if (wanted <= reserved) return true;
        const auto to = static_cast<std::uint32_t>(std::min<std::size_t>(capacity, wanted + chunk));
        if (!page_.reserve(shard_, at + reserved * unit, (to - reserved) * unit)) return false;
        reserved = to;
        return true;
    };
    return grow(entries_reserved_, sources_.size() + 1, series_chunk, page::series_capacity, page::series_at, sizeof(page::series)) &&
           grow(values_reserved_, values_used_ + value_count, series_chunk, page::value_capacity, page::values_at, 8) &&
           grow(strings_reserved_, strings_used_ + strings, string_chunk, page::string_capacity, page::strings_at, 1);
}

metric_registry::place metric_registry::intern(std::string_view what) noexcept {
    const place p{strings_used_, static_cast<std::uint16_t>(what.size())};
    std::memcpy(section_ + page::strings_at + p.at, what.data(), what.size());
    strings_used_ += p.size;
    return p;
}

std::string_view metric_registry::text(std::uint32_t at, std::uint16_t size) const noexcept {
    return {reinterpret_cast<const char*>(section_ + page::strings_at + at), size};
}

void metric_registry::remove(series_id id) noexcept {
    if (id >= sources_.size() || sources_[id].at == nullptr) return;
    sources_[id] = {};
    entries()[id].live = 0;
    --live_;
    ++generation_;
    store(head().generation, generation_);
}

// ---- publishing ----

metric_registry::series_id metric_registry::publish(series_id first, series_id count) noexcept {
    const series_id end = static_cast<series_id>(std::min<std::size_t>(sources_.size(), std::size_t{first} + count));
    const page::series* const entry = entries();
    for (series_id id = first; id < end; ++id) {
        const source& from = sources_[id];
        if (from.at == nullptr) continue;
        if (from.values != nullptr || from.powers != nullptr) {
            publish_histogram(entry[id], from);
        } else {
            store(values()[entry[id].value], from.read != nullptr ? from.read(from.at) : load_counter(from.at));
        }
    }
    return end == sources_.size() ? 0 : end;
}

void metric_registry::publish_histogram(const page::series& entry, const source& from) noexcept {
    std::uint64_t* const bounds = values() + entry.value;
    std::array<std::uint64_t, max_bounds> counts{};
    if (from.values != nullptr) from.values->cumulative({bounds, entry.buckets}, {counts.data(), entry.buckets});
    else from.powers->cumulative(std::span(counts).first<log2_histogram::bound_count>());
    std::uint64_t* const to = bounds + entry.buckets;
    for (unsigned i = 0; i < entry.buckets; ++i) store(to[i], counts[i]);
    store(to[entry.buckets], from.values != nullptr ? from.values->count() : from.powers->count());
    store(to[entry.buckets + 1], from.values != nullptr ? from.values->sum() : from.powers->sum());
}

void metric_registry::add_row(const std::array<std::uint64_t, page::row_fields>& fields) noexcept {
    if (!rows_full()) {
        page::row& to = row(rows_);
        const std::uint64_t mark = to.begin + 1;
        __atomic_store_n(&to.end, mark, __ATOMIC_RELAXED); // readers copy front to back: they see this first, or not at all
        __atomic_thread_fence(__ATOMIC_RELEASE);
        for (std::size_t i = 0; i < fields.size(); ++i) store(to.fields[i], fields[i]);
        __atomic_store_n(&to.begin, mark, __ATOMIC_RELEASE);
    }
    ++rows_;
}

void metric_registry::end_round(std::uint64_t interval_ns) noexcept {
    ++publications_;
    __atomic_store_n(&head().row_count, static_cast<std::uint32_t>(std::min<std::uint64_t>(rows_, page::row_capacity)), __ATOMIC_RELAXED);
    store(head().row_total, rows_);
    store(head().interval, interval_ns);
    store(head().publications, publications_);
    store(head().published, boot_time_ns());
}

std::uint64_t metric_registry::value(series_id id, std::uint32_t offset) const noexcept {
    return __atomic_load_n(values() + entries()[id].value + offset, __ATOMIC_RELAXED);
}

metric_registry::series_id metric_registry::catalog(series_id first, series_id count, std::vector<catalog_entry>& out) const {
    const series_id end = static_cast<series_id>(std::min<std::size_t>(sources_.size(), std::size_t{first} + count));
    for (series_id id = first; id < end; ++id) {
        if (sources_[id].at == nullptr) continue;
        const page::series& e = entries()[id];
        out.push_back({std::string(text(e.name, e.name_size)), std::string(text(e.help, e.help_size)),
                       std::string(text(e.labels, e.labels_size)), static_cast<metric_kind>(e.kind),
                       static_cast<metric_unit>(e.unit), e.value, e.buckets});
    }
    return end >= sources_.size() ? 0 : end;
}

// ---- groups ----

void metric_group::counter(std::string_view name, std::string_view help, const std::uint64_t& value, std::string_view labels,
                           metric_unit unit) {
    if (registry_ != nullptr) keep(registry_->add(name, help, metric_kind::counter, value, unit, join_labels(labels_, labels)));
}
void metric_group::counter(std::string_view name, std::string_view help, metric_reader read, const void* of,
                           std::string_view labels, metric_unit unit) {
    if (registry_ != nullptr) keep(registry_->add(name, help, metric_kind::counter, read, of, unit, join_labels(labels_, labels)));
}
void metric_group::gauge(std::string_view name, std::string_view help, const std::uint64_t& value, std::string_view labels,
                         metric_unit unit) {
    if (registry_ != nullptr) keep(registry_->add(name, help, metric_kind::gauge, value, unit, join_labels(labels_, labels)));
}
void metric_group::gauge(std::string_view name, std::string_view help, metric_reader read, const void* of,
                         std::string_view labels, metric_unit unit) {
    if (registry_ != nullptr) keep(registry_->add(name, help, metric_kind::gauge, read, of, unit, join_labels(labels_, labels)));
}
void metric_group::histogram(std::string_view name, std::string_view help, const corewire::histogram& values,
                             std::span<const std::uint64_t> bounds, std::string_view labels, metric_unit unit) {
    if (registry_ != nullptr) keep(registry_->add(name, help, values, bounds, unit, join_labels(labels_, labels)));
}

void metric_group::histogram(std::string_view name, std::string_view help, const log2_histogram& values, std::string_view labels,
                             metric_unit unit) {
    if (registry_ != nullptr) keep(registry_->add(name, help, values, unit, join_labels(labels_, labels)));
}

void metric_group::clear() noexcept {
    for (const metric_registry::series_id id : ids_) registry_->remove(id);
    ids_.clear();
}

} // namespace corewire
