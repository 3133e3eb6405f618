// Machines from XML: every bound at its edge, and hostile documents that must be refused in a sentence and never crash hwloc.
// ctest: timeout=300
#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/topology/machine.hh>
#include <corewire/reactor/topology/xml_check.hh>

#include <boost/test/unit_test.hpp>

#include <stdexcept>
#include <string>

using namespace corewire;

namespace {

std::string document(const std::string& inside) { return "<topology version=\"2.0\">" + inside + "</topology>"; }
std::string repeated(const std::string& text, std::size_t times) {
    std::string all;
    all.reserve(text.size() * times);
    for (std::size_t i = 0; i < times; ++i) all += text;
    return all;
}
bool accepted(const std::string& text) { return !refuse_xml(text).has_value(); }
bool refused(const std::string& text, const std::string& why) {
    const auto answer = refuse_xml(text);
    BOOST_TEST_INFO("answer: " << answer.value_or("accepted"));
    return answer && answer->find(why) != answer->npos;
}
std::string object_with(const std::string& attribute, const std::string& value) {
    return document("<object " + attribute + "=\"" + value + "\"/>");
}

} // namespace

BOOST_AUTO_TEST_SUITE(xml_check)

BOOST_AUTO_TEST_CASE(a_document_of_the_largest_size_is_read_and_one_byte_more_is_not) {
    const std::string frame = document("<!---->");
    std::string text = document("<!--" + std::string(xml_limits::most_bytes - frame.size(), 'x') + "-->");
    BOOST_TEST(text.size() == xml_limits::most_bytes);
    BOOST_TEST(accepted(text));
    BOOST_TEST(refused(text + " ", "16 MiB"));
}

BOOST_AUTO_TEST_CASE(objects_are_counted) {
    BOOST_TEST(accepted(document(repeated("<object/>", xml_limits::most_objects))));
    BOOST_TEST(refused(document(repeated("<object/>", xml_limits::most_objects + 1)), "65536 objects"));
}

BOOST_AUTO_TEST_CASE(nesting_is_bounded) {
    const auto nested = [](std::size_t depth) { return repeated("<object>", depth) + repeated("</object>", depth); };
    BOOST_TEST(accepted(document(nested(xml_limits::most_depth - 1))));
    BOOST_TEST(refused(document(nested(xml_limits::most_depth)), "64 deep"));
}

BOOST_AUTO_TEST_CASE(a_value_has_a_length) {
    BOOST_TEST(accepted(object_with("cpuset", std::string(xml_limits::most_value, '0'))));
    BOOST_TEST(refused(object_with("cpuset", std::string(xml_limits::most_value + 1, '0')), "16384 bytes"));
}

BOOST_AUTO_TEST_CASE(numbers_that_hwloc_allocates_by_are_bounded) {
    BOOST_TEST(accepted(object_with("os_index", "65535")));
    for (const char* value : {"65536", "4294967295", "99999999999999999999", "-1", "", "0x10", "1e9"})
        BOOST_TEST(refused(object_with("os_index", value), "os_index"));
    BOOST_TEST(accepted(document("<distances2 nbobjs=\"4096\"/>")));
    BOOST_TEST(refused(document("<distances2 nbobjs=\"4097\"/>"), "nbobjs"));
}

BOOST_AUTO_TEST_CASE(what_is_no_well_formed_topology_is_refused) {
    BOOST_TEST(refused("", "no <topology>"));
    BOOST_TEST(refused("hello", "no <topology>"));
    BOOST_TEST(refused(std::string("<topology>\0</topology>", 22), "not text"));
    BOOST_TEST(refused("<topology", "inside a tag"));
    BOOST_TEST(refused("<topology><!-- ", "inside a comment"));
    BOOST_TEST(refused("<topology>", "before everything is closed"));
    BOOST_TEST(refused("<topology></topology></topology>", "has not opened"));
    BOOST_TEST(refused("<topology a=1></topology>", "not name=\"value\""));
    BOOST_TEST(refused("<topology a=\"1></topology>", "without end"));
    BOOST_TEST(refused("<topology></topology b=\"\">", "more than a name"));
    BOOST_TEST(refused("<topology>< ></topology>", "without a name"));
    BOOST_TEST(refused("<topology><x <object/></topology>", "inside a tag"));
    BOOST_TEST(refused("<!DOCTYPE topology [<!ENTITY a \"b\">]>\n" + document(""), "no heading"));
    BOOST_TEST(refused("<!ENTITY a \"b\">\n" + document(""), "no heading"));
    BOOST_TEST(refused("<![CDATA[ ]]>\n" + document(""), "no heading"));
}

BOOST_AUTO_TEST_CASE(headings_are_as_hwloc_and_others_write_them) {
    for (const char* xml : {"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", "<?xml version='1.0' encoding='UTF-8'?>\r\n",
                            "<?xml version=\"1.0\"?> \n"})
        for (const char* type : {"", "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n", "<!DOCTYPE topology SYSTEM \"hwloc.dtd\">\n"})
            BOOST_TEST(accepted(xml + (type + document(""))), xml << type);
    for (const char* other : {"<?xml version=\"1.0\" encoding=\"UTF-7\"?>\n", "<?php ?>\n", "<!DOCTYPE topology SYSTEM \"a\" \"b.dtd\">\n",
                              "<!DOCTYPE topology SYSTEM \".dtd\">\n", " <?xml version=\"1.0\"?>\n"})
        BOOST_TEST(refused(other + document(""), "no heading"), other);
    BOOST_TEST(refused(document("\n<?xml version=\"1.0\"?>\n"), "no heading"));
}

BOOST_AUTO_TEST_CASE(nothing_is_hidden_from_the_check_that_hwloc_would_read) {
    // hwloc needs no blank behind a value.
    BOOST_TEST(refused(document("<distances2 type=\"x\"nbobjs=\"4294967295\"/>"), "not name=\"value\""));
    BOOST_TEST(refused(document("<object type=\"PU\"os_index=\"4294967295\"/>"), "not name=\"value\""));
    BOOST_TEST(refused(document("<object\nos_index=\"4294967295\"/>"), "os_index"));
    BOOST_TEST(refused(document("<object\ros_index=\"4294967295\"/>"), "os_index"));
    // libxml2 leaves the name of a name space away.
    BOOST_TEST(refused(document("<object a:os_index=\"4294967295\"/>"), "not name=\"value\""));
    BOOST_TEST(refused(document("<a:object os_index=\"4294967295\"/>"), "not name=\"value\""));
    // A tag of hwloc's ends at the first '>', be it in quotes, and single quotes are none.
    const std::string evil = "<object os_index=\"4294967295\"/>";
    BOOST_TEST(refused(document("<x a=\"> " + evil + " <x a=\"\"/>"), "without end"));
    BOOST_TEST(refused(document("<x a='" + evil + "'/>"), "inside a tag"));
    BOOST_TEST(refused(document("<x></x '>" + evil + "<x '/>"), "more than a name"));
    // It skips the line of a heading, whatever stands there.
    const std::string whole = "\n<topology version=\"2.0\">" + evil + "</topology>\n";
    BOOST_TEST(refused("<?xml '" + whole + "' ?><topology></topology>", "no heading"));
    BOOST_TEST(refused("<!DOCTYPE '" + whole + "'><topology></topology>", "no heading"));
    BOOST_TEST(refused("<?xml version=\"1.0\"?><!--" + whole + "--><topology></topology>", "no heading"));
    BOOST_TEST(refused("<?xml version=\"1.0\"?><x a=\"" + whole + "\"/><topology></topology>", "no heading"));
    // A comment ends where XML says that it does.
    BOOST_TEST(refused(document("<!--><x a=\"-->" + evil + "<x a=\"\"/>"), "os_index"));
    BOOST_TEST(accepted(document("<!--><x a=\"-->")));
}

BOOST_AUTO_TEST_CASE(a_machine_written_as_xml_reads_the_same) {
    const machine first = machine::synthetic("pack:2 numa:1 l3:1 core:4 pu:2");
    const machine second = machine::from_xml(first.to_xml());
    BOOST_TEST(second.processing_units().size() == first.processing_units().size());
    for (const processing_unit& unit : first.processing_units()) {
        const processing_unit* same = second.find(unit.os_index);
        BOOST_REQUIRE(same != nullptr);
        BOOST_TEST((same->core == unit.core && same->numa_node == unit.numa_node && same->package == unit.package));
    }
}

BOOST_AUTO_TEST_CASE(a_damaged_machine_is_read_or_refused_and_nothing_else) {
    const std::string good = machine::synthetic("pack:2 numa:1 l3:1 core:2 pu:2").to_xml();
    unsigned read = 0;
    unsigned kept_out = 0;
    for (std::uint64_t seed = 1; seed <= 600; ++seed) {
        BOOST_TEST_CONTEXT("seed " << seed) {
            random_generator random(seed);
            std::string text = good;
            for (std::uint64_t i = 0, n = 1 + random.below(4); i < n; ++i) {
                const std::size_t at = random.below(text.size());
                switch (random.below(4)) {
                case 0: text[at] = static_cast<char>(' ' + random.below(95)); break;
                case 1: text.erase(at, 1 + random.below(20)); break;
                case 2: text.insert(at, text.substr(random.below(text.size()), random.below(60))); break;
                default: text[at] = static_cast<char>('0' + random.below(10));
                }
            }
            try {
                const machine m = machine::from_xml(text);
                BOOST_TEST(m.processing_units().size() <= 8192u);
                ++read;
            } catch (const std::exception&) {
                ++kept_out;
            }
        }
    }
    BOOST_TEST(read > 50u); // the damage was not so heavy that nothing was tried
    BOOST_TEST(kept_out > 50u);
}

BOOST_AUTO_TEST_CASE(isolated_cpus_may_be_named_unless_somebody_chose_the_mask) {
    // The kernel keeps isolated CPUs out of everybody's mask; a mask that holds one was set by hand and is the whole truth.
    const machine plain = machine::synthetic("core:4 pu:1");
    std::string text = plain.to_xml();
    const std::size_t at = text.find("<info ");
    BOOST_REQUIRE(at != text.npos);
    text.insert(at, "<info name=\"CorewireIsolated\" value=\"2-3\"/>");
    const machine m = machine::from_xml(text);
    BOOST_TEST(!m.find(2)->allowed);
    BOOST_TEST(m.find(2)->nameable);
    BOOST_TEST(m.find(2)->isolated);
    BOOST_TEST(m.find(0)->allowed);
    BOOST_TEST(m.allowed_count() == 2u);
}

BOOST_AUTO_TEST_SUITE_END()
