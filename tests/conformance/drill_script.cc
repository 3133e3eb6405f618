#include "drill_script.hh"

#include <cctype>
#include <cmath>
#include <sstream>
#include <stdexcept>

namespace corewire::conformance {

namespace {

/// A line, read from the left.
class line_reader {
public:
    line_reader(std::string text, int line) : text_(std::move(text)), line_(line) {}

    [[noreturn]] void fail(const std::string& what) const {
        throw std::runtime_error("line " + std::to_string(line_) + ": " + what + ", at \"" + text_.substr(at_) + '"');
    }
    void skip_space() {
        while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    }
    bool at_end() {
        skip_space();
        return at_ == text_.size();
    }
    bool take(const std::string& what) {
        skip_space();
        if (text_.compare(at_, what.size(), what) != 0) return false;
        at_ += what.size();
        return true;
    }
    void expect(const std::string& what) {
        if (!take(what)) fail("expected " + what);
    }
    /// Letters, digits and whatever of `more`.
    std::string word(const std::string& more = "_") {
        skip_space();
        const std::size_t from = at_;
        while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || more.find(text_[at_]) != more.npos)) ++at_;
        return text_.substr(from, at_ - from);
    }
    std::int64_t number() {
        const std::string w = word("-");
        try {
            return std::stoll(w, nullptr, 0);
        } catch (const std::exception&) {
            fail("expected a number");
        }
    }
    script_time seconds() {
        const std::string w = word(".");
        try {
            return static_cast<script_time>(std::llround(std::stod(w) * 1e6));
        } catch (const std::exception&) {
            fail("expected a time");
        }
    }
    /// Up to `end`, which is skipped.
    std::string until(const std::string& end) {
        const std::size_t found = text_.find(end, at_);
        if (found == text_.npos) fail("expected " + end);
        std::string s = text_.substr(at_, found - at_);
        at_ = found + end.size();
        return s;
    }
    std::string rest() {
        skip_space();
        return text_.substr(at_);
    }
    char peek() {
        skip_space();
        return at_ < text_.size() ? text_[at_] : '\0';
    }

private:
    std::string text_;
    int line_;
    std::size_t at_ = 0;
};

std::string trimmed(const std::string& s) {
    const auto from = s.find_first_not_of(" \t\n");
    if (from == s.npos) return {};
    return s.substr(from, s.find_last_not_of(" \t\n") - from + 1);
}

/// Cut at the commas outside of brackets and quotes.
std::vector<std::string> split_arguments(const std::string& text) {
    std::vector<std::string> parts;
    std::string part;
    int depth = 0;
    bool quoted = false;
    for (const char c : text) {
        if (c == '"') quoted = !quoted;
        if (!quoted && (c == '[' || c == '{' || c == '(')) ++depth;
        if (!quoted && (c == ']' || c == '}' || c == ')')) --depth;
        if (c == ',' && depth == 0 && !quoted) {
            parts.push_back(trimmed(part));
            part.clear();
        } else {
            part += c;
        }
    }
    if (!trimmed(part).empty() || !parts.empty()) parts.push_back(trimmed(part));
    return parts;
}

/// FIRST:END(LENGTH)
void parse_range(line_reader& in, std::int64_t& first, std::int64_t& end) {
    first = in.number();
    in.expect(":");
    end = in.number();
    in.expect("(");
    if (in.number() != end - first) in.fail("the length is not the range's");
    in.expect(")");
}

tcp_option_text parse_option(const std::string& text, const line_reader& where) {
    std::istringstream in(text);
    tcp_option_text o;
    in >> o.name;
    std::string w;
    if (o.name == "TS") {
        std::int64_t value = 0, echo = 0;
        std::string val, ecr;
        if (!(in >> val >> value >> ecr >> echo)) where.fail("a timestamp is TS val N ecr N");
        o.numbers = {value, echo};
    } else if (o.name == "sack") {
        while (in >> w) {
            const std::size_t colon = w.find(':');
            if (colon == w.npos) where.fail("a SACK block is LEFT:RIGHT");
            o.numbers.push_back(std::stoll(w.substr(0, colon)));
            o.numbers.push_back(std::stoll(w.substr(colon + 1)));
        }
    } else if (o.name == "FO" || o.name == "FOEXP") { // a cookie in hexadecimal; none asks for one
        in >> w;
        for (std::size_t i = 0; i + 1 < w.size(); i += 2) o.numbers.push_back(std::stoll(w.substr(i, 2), nullptr, 16));
    } else {
        for (std::int64_t n = 0; in >> n;) o.numbers.push_back(n);
    }
    return o;
}

packet_step parse_packet(line_reader& in, bool inbound) {
    packet_step p;
    p.inbound = inbound;
    if (in.take("[")) {
        for (const std::string& mark : split_arguments(in.until("]"))) {
            const std::string value = mark.substr(std::min(mark.find(' ') + 1, mark.size()));
            if (mark.starts_with("tos ")) p.type_of_service = static_cast<unsigned>(std::stoul(value, nullptr, 0));
            else if (mark.starts_with("ttl ")) p.hops = static_cast<unsigned>(std::stoul(value));
            else if (mark.starts_with("feign ")) p.feigned_hops = static_cast<unsigned>(std::stoul(value));
            else p.ecn = mark == "ce" ? 3 : mark == "ect0" ? 2 : mark == "ect1" ? 1 : 0;
        }
    }
    p.flags = in.word(".");
    if (p.flags.empty()) in.fail("expected flags");
    parse_range(in, p.first, p.end);
    while (!in.at_end()) {
        if (in.take("ack")) {
            p.ack = in.number();
        } else if (in.take("win")) {
            p.window = in.number();
        } else if (in.take("urg")) {
            p.urgent = in.number();
        } else if (in.take("<...>")) {
            p.any_options = true;
        } else if (in.take("<")) {
            for (const std::string& o : split_arguments(in.until(">"))) p.options.push_back(parse_option(o, in));
        } else {
            in.fail("unknown in a packet");
        }
    }
    return p;
}

icmp_step parse_icmp(line_reader& in) {
    icmp_step i;
    in.expect("unreachable");
    i.kind = in.word();
    if (in.take("mtu")) i.mtu = static_cast<std::uint32_t>(in.number());
    in.expect("[");
    parse_range(in, i.first, i.end);
    in.expect("]");
    return i;
}

call_step parse_call(line_reader& in) {
    call_step c;
    c.name = in.word();
    in.expect("(");
    const std::string rest = in.rest();
    // The last `) =` ends the arguments.
    const std::size_t end = rest.rfind(") =");
    if (end == rest.npos) in.fail("a call is NAME(ARGUMENTS) = RESULT");
    c.arguments = split_arguments(rest.substr(0, end));
    std::istringstream result(rest.substr(end + 3));
    std::string value;
    result >> value >> c.error;
    c.result = std::stoll(value, nullptr, 0);
    return c;
}

std::vector<check_step> parse_checks(const std::string& text, const line_reader& where) {
    std::vector<check_step> checks;
    std::istringstream in(text);
    for (std::string w; in >> w;) {
        check_step c;
        if (w != "assert" || !(in >> c.name >> c.comparison >> w)) where.fail("a check is: assert NAME COMPARISON NUMBER");
        c.value = std::stoll(w);
        checks.push_back(c);
    }
    return checks;
}

step parse_step(const std::string& text, int line) {
    line_reader in(text, line);
    step s;
    s.line = line;
    s.text = trimmed(text);
    std::optional<script_time> until;
    if (in.take("*")) {
        s.any_time = true;
    } else {
        s.relative = in.take("+");
        std::string time = in.word(".");
        const std::size_t dots = time.find("...");
        const std::string from = time.substr(0, dots);
        s.at = static_cast<script_time>(std::llround(std::stod(from) * 1e6));
        if (dots != time.npos) until = static_cast<script_time>(std::llround(std::stod(time.substr(dots + 3)) * 1e6));
    }
    if (in.take("%{")) {
        s.what = parse_checks(in.until("}%"), in);
    } else if (in.take("<")) {
        if (in.take("icmp")) {
            s.what = parse_icmp(in);
        } else {
            s.what = parse_packet(in, true);
        }
    } else if (in.take(">")) {
        s.what = parse_packet(in, false);
    } else {
        call_step c = parse_call(in);
        c.until = until;
        s.what = std::move(c);
    }
    return s;
}

} // namespace

namespace {

/// What stands behind `mark`, to the end of the line.
std::string header_line(const std::string& text, std::string_view mark, const std::string& otherwise) {
    const std::size_t at = text.find(mark);
    if (at == text.npos) return otherwise;
    const std::size_t from = at + mark.size();
    return text.substr(from, text.find('\n', from) - from);
}

} // namespace

std::string flags_of_script(const std::string& text, const std::string& otherwise) { return header_line(text, "// flags: ", otherwise); }

bool is_for_mode(const std::string& text, const std::string& mode) {
    constexpr std::string_view mark = "// only:";
    if (const std::size_t at = text.find(mark); at != text.npos && text.find(mark, at + 1) != text.npos)
        throw std::runtime_error("two lines say which modes the script is for");
    std::istringstream all(header_line(text, mark, mode));
    bool named = false, is = false;
    for (std::string one; all >> one; named = true) {
        if (one != "ipv4" && one != "ipv6" && one != "mapped") throw std::runtime_error("there is no mode \"" + one + '"');
        is |= one == mode;
    }
    if (!named) throw std::runtime_error("the script is for no mode");
    return is;
}

std::vector<step> parse_script(const std::string& text) {
    std::vector<step> steps;
    std::istringstream in(text);
    int number = 0;
    for (std::string line; std::getline(in, line);) {
        ++number;
        if (const std::size_t comment = line.find("//"); comment != line.npos) line.erase(comment);
        if (trimmed(line).empty()) continue;
        const int first = number;
        // A check may go on over lines.
        while (line.find("%{") != line.npos && line.find("}%") == line.npos) {
            std::string more;
            if (!std::getline(in, more)) throw std::runtime_error("line " + std::to_string(first) + ": no }%");
            ++number;
            line += ' ' + more;
        }
        steps.push_back(parse_step(line, first));
    }
    return steps;
}

} // namespace corewire::conformance
