// Purpose: a source for the target that compiles precompiled/tests.hpp.
