// The functions of fmt, compiled into the library that is loaded into programs of others: Debian
// has no static libfmt, and the shared one could take the place of theirs. The instantiations are
// those that fmt's headers declare extern.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

template thousands_sep_result<char> thousands_sep_impl<char>(locale_ref);
template char decimal_point_impl<char>(locale_ref);
template dragonbox::decimal_fp<float> dragonbox::to_decimal(float) noexcept;
template dragonbox::decimal_fp<double> dragonbox::to_decimal(double) noexcept;

}  // namespace detail
FMT_END_NAMESPACE
