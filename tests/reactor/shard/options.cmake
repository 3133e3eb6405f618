# Two shards, or threads beside one.
set(TEST_PROCESSORS 2)
