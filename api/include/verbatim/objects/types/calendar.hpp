// The calendar of std::chrono: dates, and parts of dates. All bytes are values; ok() tells of each
// whether it names a day.
#pragma once

#include <chrono>
#include <string>
#include <type_traits>

#include <boost/mp11/algorithm.hpp>

#include <verbatim/objects/describe/type_name.hpp>
#include <verbatim/objects/traits/nodes.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {
namespace detail {

using CalendarTypes =
    List<std::chrono::day, std::chrono::month, std::chrono::year, std::chrono::weekday,
         std::chrono::weekday_indexed, std::chrono::weekday_last, std::chrono::month_day,
         std::chrono::month_day_last, std::chrono::month_weekday, std::chrono::month_weekday_last,
         std::chrono::year_month, std::chrono::year_month_day, std::chrono::year_month_day_last,
         std::chrono::year_month_weekday, std::chrono::year_month_weekday_last>;
template <class T>
concept CalendarType = boost::mp11::mp_contains<CalendarTypes, T>::value;

template <CalendarType T>
struct KeyParts<T> : std::type_identity<List<>> {};

}  // namespace detail

template <detail::CalendarType T>
struct Trait<T> : PlainTrait {
    static std::string spell() { return type_name<T>(); }
};

}  // namespace verbatim::objects
