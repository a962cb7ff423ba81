// A source for the target that compiles support/precompiled/tests.hpp.
