// All supported types. Each has a file of its own.
#pragma once

#include <verbatim/objects/traits/product.hpp>
#include <verbatim/objects/types/adaptors.hpp>
#include <verbatim/objects/types/array.hpp>
#include <verbatim/objects/types/bitset.hpp>
#include <verbatim/objects/types/calendar.hpp>
#include <verbatim/objects/types/deque.hpp>
#include <verbatim/objects/types/list.hpp>
#include <verbatim/objects/types/optional.hpp>
#include <verbatim/objects/types/ordered.hpp>
#include <verbatim/objects/types/path.hpp>
#include <verbatim/objects/types/pointer.hpp>
#include <verbatim/objects/types/scalar.hpp>
#include <verbatim/objects/types/shared_ptr.hpp>
#include <verbatim/objects/types/string.hpp>
#include <verbatim/objects/types/text.hpp>
#include <verbatim/objects/types/tuple.hpp>
#include <verbatim/objects/types/unique_ptr.hpp>
#include <verbatim/objects/types/unordered.hpp>
#include <verbatim/objects/types/variant.hpp>
#include <verbatim/objects/types/vector.hpp>
#include <verbatim/objects/types/vector_bool.hpp>
#include <verbatim/objects/types/view.hpp>
#include <verbatim/objects/types/wrapped.hpp>
