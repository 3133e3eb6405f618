# The kernel's workers, or helper threads, work beside us.
set(TEST_PROCESSORS 2)
