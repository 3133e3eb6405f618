# The kernel completes requests beside us.
set(TEST_PROCESSORS 2)
