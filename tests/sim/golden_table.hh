// What the golden tests have measured, committed beside what theory says: tests/sim/golden/NAME.tsv, a row for each figure with the
// value, what was expected of it, and where that comes from. The simulator repeats exactly, so that a figure moves only with the code: who
// means to move it writes the tables anew, COREWIRE_GOLDEN=write in the environment, and shows the difference.
#pragma once

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace corewire::golden {

class golden_table {
public:
    static constexpr double tolerance = 0.025; ///< of a committed figure: what a change of no consequence may move

    explicit golden_table(const std::string& name) {
        const char* const source = std::getenv("COREWIRE_SOURCE_DIR");
        path_ = std::string(source != nullptr ? source : ".") + "/tests/sim/golden/" + name + ".tsv";
        const char* const what = std::getenv("COREWIRE_GOLDEN");
        writes_ = what != nullptr && std::string_view(what) == "write";
        std::ifstream in(path_);
        for (std::string line; std::getline(in, line);) {
            const std::size_t first = line.find('\t');
            if (line.empty() || line.front() == '#' || first == line.npos) continue;
            committed_[line.substr(0, first)] = std::stod(line.substr(first + 1));
        }
    }
    ~golden_table() {
        if (!writes_ || lines_.empty()) return;
        std::ofstream out(path_);
        out << "# row\tmeasured\texpected\tsource\n";
        for (const std::string& line : lines_) out << line << '\n';
    }
    golden_table(const golden_table&) = delete;

    /// `expected` by `source`: for who reads the table. The committed figure is what `got` is compared with.
    void compare(const std::string& row, double got, double expected, const std::string& source) {
        std::ostringstream line;
        line << std::fixed << std::setprecision(4) << row << '\t' << got << '\t' << expected << '\t' << source;
        lines_.push_back(line.str());
        if (writes_) return;
        const auto found = committed_.find(row);
        BOOST_REQUIRE_MESSAGE(found != committed_.end(), path_ << " has no row for: " << line.str());
        BOOST_TEST(std::abs(got - found->second) <= tolerance * std::abs(found->second), line.str() << ", committed " << found->second);
    }
    /// Of those that begin so: who has measured as many has left none out.
    std::size_t rows(std::string_view prefix) const {
        std::size_t n = 0;
        for (const auto& [row, value] : committed_) n += row.starts_with(prefix);
        return n;
    }
    bool writes() const noexcept { return writes_; }

private:
    std::string path_;
    bool writes_ = false;
    std::map<std::string, double> committed_;
    std::vector<std::string> lines_; ///< as measured
};

} // namespace corewire::golden
