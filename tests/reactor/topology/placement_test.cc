// Placement files: what is read, what is written, and the sentence for each way to get one wrong; every limit.
#include <corewire/reactor/topology/placement.hh>

#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <unistd.h>

using namespace corewire;
namespace limits = corewire::placement_limits;

namespace {

std::string refusal(std::string_view text) {
    try {
        static_cast<void>(parse_placement(text));
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "accepted";
}

std::string shard_refusal(std::string_view text) {
    try {
        static_cast<void>(parse_shard(text));
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "accepted";
}

std::string many(std::string_view line, std::size_t times) {
    std::string text;
    for (std::size_t i = 0; i < times; ++i) text += line;
    return text;
}

} // namespace

BOOST_AUTO_TEST_SUITE(placement)

BOOST_AUTO_TEST_CASE(a_file_says_where_each_shard_runs_and_why) {
    const corewire::placement p = parse_placement("# made by hand\r\n"
                                                  "\n"
                                                  "  interface=\"eth1\" # the fast one\n"
                                                  "shard = \"pu:33,numa:1,queue:0+8\"  # next to eth1 # really\n"
                                                  "shard = \"queue:1, pu:34\"");
    BOOST_TEST(p.interface == "eth1");
    BOOST_TEST_REQUIRE(p.shards.size() == 2u);
    BOOST_TEST((p.shards[0] == shard_place{.cpu = 33, .numa_node = 1, .queues = {0, 8}, .why = "next to eth1 # really"}));
    BOOST_TEST((p.shards[1] == shard_place{.cpu = 34, .numa_node = {}, .queues = {1}, .why = ""}));
}

BOOST_AUTO_TEST_CASE(what_is_written_is_read_back) {
    const corewire::placement p{.interface = "eth1",
                                .shards = {{.cpu = 1, .numa_node = 0, .queues = {0}, .why = "a \"quoted\" = word"},
                                           {.cpu = 65'535, .numa_node = 7, .queues = {1, 4095}, .why = ""},
                                           {.cpu = 2, .numa_node = {}, .queues = {}, .why = "#"}}};
    const std::string text = to_text(p, {"heading", "", "second"});
    BOOST_TEST(text.starts_with("# heading\n#\n# second\ninterface = \"eth1\"\nshard = \"pu:1,numa:0,queue:0\" "), text);
    BOOST_TEST((parse_placement(text) == p), text);
}

BOOST_AUTO_TEST_CASE(a_line_that_means_nothing_is_named) {
    BOOST_TEST(refusal("shard = \"pu:1\"\nshards = \"2\"\n") ==
               "line 2: 'shards' is no key of a placement: those are interface and shard");
    BOOST_TEST(refusal("shard \"pu:1\"") == "line 1: 'shard \"pu:1\"' is not KEY = \"VALUE\"");
    BOOST_TEST(refusal("shard = pu:1") == "line 1: the value of shard wants to stand in \"quotes\"");
    BOOST_TEST(refusal("shard = \"pu:1") == "line 1: the value of shard has no closing quote");
    BOOST_TEST(refusal("shard = \"") == "line 1: the value of shard wants to stand in \"quotes\"");
    BOOST_TEST(refusal("shard = \"pu:1\" pu:2") == "line 1: 'pu:2' stands behind the value of shard");
    BOOST_TEST(refusal("interface = \"a\"\ninterface = \"a\"") == "line 2: interface is given twice");
    for (const char* name : {"", "a b", "../x", "..", "a\xffz"})
        BOOST_TEST(refusal("interface = \"" + std::string(name) + "\"").find("is not the name of an interface") != std::string::npos, name);
    BOOST_TEST(refusal("") == "it has no shard: a line like shard = \"pu:2,numa:0,queue:0\" for each");
    BOOST_TEST(refusal(std::string_view("shard = \"pu:1\"\0", 15)) == "line 1 is not text");
    BOOST_TEST(refusal("\x7f" "ELF\x02") == "line 1 is not text");
}

BOOST_AUTO_TEST_CASE(a_shard_that_means_nothing_is_refused) {
    BOOST_TEST(shard_refusal("numa:1") == "'numa:1' does not say on which CPU: add pu:CPU");
    BOOST_TEST(shard_refusal("pu:1,pu:2") == "'pu:1,pu:2' says pu twice");
    BOOST_TEST(shard_refusal("pu:1,numa:0,numa:0") == "'pu:1,numa:0,numa:0' says numa twice");
    BOOST_TEST(shard_refusal("pu:1,queue:0,queue:1") == "'pu:1,queue:0,queue:1' says queue twice");
    BOOST_TEST(shard_refusal("pu:1,queue:3+3") == "'pu:1,queue:3+3' names queue 3 twice");
    BOOST_TEST(shard_refusal("pu:65536") == "'pu:65536' is not a shard: pu:65536 is not a number of 65535 at most");
    for (const char* text : {"", ",", "7", "pu", "pu:", "pu:-1", "pu:+1", "pu: 1", "pu:1x", "pu:99999999999999999999",
                             "core:1", "pu:1,", "pu:1,queue:",
                             "pu:1,queue:1+", "pu:1,queue:0-3", "PU:1"})
        BOOST_TEST(shard_refusal(text) != "accepted", "'" << text << "' was accepted");
}

BOOST_AUTO_TEST_CASE(every_limit_holds) {
    BOOST_TEST(refusal(many("#", limits::most_bytes + 1)) == "it has more than 1024 KiB");
    BOOST_TEST(refusal(many("#\n", limits::most_bytes / 2)).starts_with("it has no shard"));
    BOOST_TEST(refusal("\n" + many("#", limits::most_line + 1)) == "line 2 has more than 4096 characters");
    BOOST_TEST(refusal(many("#", limits::most_line)).starts_with("it has no shard"));
    BOOST_TEST(refusal(many("shard = \"pu:1\"\n", limits::most_shards)) == "accepted");
    BOOST_TEST(refusal(many("shard = \"pu:1\"\n", limits::most_shards + 1)) == "line 1025: there are more than 1024 shards");
    std::string queues = "pu:1,queue:0";
    for (unsigned q = 1; q < limits::most_queues; ++q) queues += "+" + std::to_string(q);
    BOOST_TEST(shard_refusal(queues) == "accepted");
    BOOST_TEST(shard_refusal(queues + "+256").find("more than 256 queues") != std::string::npos);
    BOOST_TEST(shard_refusal("pu:1,queue:4095") == "accepted");
    BOOST_TEST(shard_refusal("pu:1,queue:4096") != "accepted");
    BOOST_TEST(shard_refusal(many(" ", limits::most_line + 1)) == "a shard's place has 4096 characters at most");
    BOOST_TEST(refusal("interface = \"" + many("x", limits::most_name) + "\"").starts_with("it has no shard"));
    BOOST_TEST(refusal("interface = \"" + many("x", limits::most_name + 1) + "\"").find("is not the name") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_refusal_shows_no_more_than_the_beginning_of_a_text_and_no_control_characters) {
    const std::string text = refusal("\tshard\t=\t\"pu:\t" + many("z", 500) + "\"");
    BOOST_TEST(text.size() < 300u, text);
    BOOST_TEST(text.find('\t') == std::string::npos);
    BOOST_TEST(text.find("...") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_file_that_is_not_there_or_not_a_placement_is_named) {
    const auto reading = [](const std::string& path) -> std::string {
        try {
            static_cast<void>(read_placement(path));
        } catch (const std::invalid_argument& error) {
            return error.what();
        }
        return "accepted";
    };
    BOOST_TEST(reading("/nonexistent/p") == "/nonexistent/p cannot be opened: write one with `cw-topo plan >/nonexistent/p`");
    BOOST_TEST(reading("/").starts_with("/ ")); // a folder
    const std::string path = "placement_test." + std::to_string(::getpid());
    std::ofstream(path) << "shard = \"pu:x\"\n";
    BOOST_TEST(reading(path) == path + " is not a placement: line 1: 'pu:x' is not a shard: pu:x is not a number of 65535 at most");
    std::remove(path.c_str());
    BOOST_TEST(reading("/dev/zero").find("more than 1024 KiB") != std::string::npos); // without an end
}

BOOST_AUTO_TEST_SUITE_END()
