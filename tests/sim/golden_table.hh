// What the golden tests have measured, committed beside what theory says: tests/sim/golden/NAME.tsv, a row for each figure with the
// value, what was expected of it, and where that comes from. The simulator repeats exactly, so that a figure moves only with the code: who
// means to move it writes the tables anew and shows the difference.
//
//     COREWIRE_GOLDEN=write ctest --test-dir build/release -R sim/golden     (git diff tests/sim/golden)
#pragma once

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace corewire::golden {

class golden_table {
public:
    static constexpr double tolerance = 0.025; ///< of a committed figure: what a change of no consequence may move
    using cells = std::array<std::string, 3>;
    static constexpr std::array<std::string_view, 3> columns{"measured", "expected", "source"};

    explicit golden_table(const std::string& name) : golden_table(committed_at(name), means_to_write()) {}
    golden_table(std::filesystem::path path, bool writes) : path_(std::move(path)), writes_(writes) {
        std::ifstream in(path_);
        for (std::string line; std::getline(in, line);) {
            if (line.starts_with('#')) continue;
            std::istringstream parts(line);
            std::string row;
            cells c;
            if (!std::getline(parts, row, '\t') || !std::getline(parts, c[0], '\t') || !std::getline(parts, c[1], '\t') ||
                !std::getline(parts, c[2]) || !committed_.emplace(row, c).second)
                throw std::runtime_error(path_.string() + ": no row, or one that is there already: " + line);
            order_.push_back(row);
        }
    }
    /// Rows that this run has not measured stay as they were: who plays one case alone loses none.
    ~golden_table() {
        if (!writes_ || measured_.empty()) return;
        std::ofstream out(path_);
        out << "# row\tmeasured\texpected\tsource\n";
        for (const std::string& row : order_) {
            const auto now = measured_.find(row);
            const cells& c = now != measured_.end() ? now->second : committed_.at(row);
            out << row << '\t' << c[0] << '\t' << c[1] << '\t' << c[2] << '\n';
        }
    }
    golden_table(const golden_table&) = delete;

    /// `expected` by `source`: for who reads the table. The committed figure is what `got` is compared with.
    void compare(const std::string& row, double got, double expected, const std::string& source) {
        for (const std::string& difference : differences(row, got, expected, source)) BOOST_ERROR(difference);
    }
    /// One for each column in which the row is another than the committed one, and how to write it anew.
    std::vector<std::string> differences(const std::string& row, double got, double expected, const std::string& source) {
        const cells now{text_of(got), text_of(expected), source};
        if (!measured_.emplace(row, now).second) return {where(row) + "is measured twice"};
        const auto found = committed_.find(row);
        if (found == committed_.end() && std::ranges::find(order_, row) == order_.end()) order_.push_back(row);
        if (writes_) return {};
        if (found == committed_.end()) return {where(row) + "is not there: " + now[0] + ", " + now[1] + ", " + now[2] + how};
        std::vector<std::string> all;
        for (std::size_t column = 0; column < columns.size(); ++column) {
            const std::string& before = found->second[column];
            if (column == 0 ? near(got, before) : now[column] == before) continue;
            all.push_back(where(row) + "column \"" + std::string(columns[column]) + "\": " + now[column] + ", committed " + before + how);
        }
        return all;
    }
    /// Of those that begin so: who has measured as many has left none out.
    std::size_t rows(std::string_view prefix) const {
        std::size_t n = 0;
        for (const auto& [row, value] : committed_) n += row.starts_with(prefix);
        return n;
    }
    bool writes() const noexcept { return writes_; }

private:
    static constexpr const char* how = " (if it is meant: COREWIRE_GOLDEN=write ctest --test-dir build/release -R sim/golden)";

    static std::filesystem::path committed_at(const std::string& name) {
        const char* const source = std::getenv("COREWIRE_SOURCE_DIR");
        return std::filesystem::path(source != nullptr ? source : ".") / "tests/sim/golden" / (name + ".tsv");
    }
    static bool means_to_write() {
        const char* const what = std::getenv("COREWIRE_GOLDEN");
        return what != nullptr && std::string_view(what) == "write";
    }
    static std::string text_of(double value) {
        std::ostringstream text;
        text << std::fixed << std::setprecision(4) << value;
        return text.str();
    }
    static bool near(double got, const std::string& before) {
        char* end = nullptr;
        const double committed = std::strtod(before.c_str(), &end);
        return end != before.c_str() && *end == '\0' && std::abs(got - committed) <= tolerance * std::abs(committed);
    }
    std::string where(const std::string& row) const { return path_.filename().string() + ", row \"" + row + "\": "; }

    std::filesystem::path path_;
    bool writes_;
    std::map<std::string, cells> committed_, measured_;
    std::vector<std::string> order_; ///< of the file, and behind it what is new
};

} // namespace corewire::golden
