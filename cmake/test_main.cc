// main() of every test program; the suites register themselves.
#define BOOST_TEST_MODULE corewire
#include <boost/test/unit_test.hpp>
