// The software NIC is compiled for baseline x86-64 only.
#include "subjects.hpp"

namespace verbatim::bench {

void add_engine_subjects(std::vector<NamedSubject>&) {}

}  // namespace verbatim::bench
