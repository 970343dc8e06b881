// The definitions of fmt that are no templates, compiled once. With FMT_HEADER_ONLY every source compiles
// them again, which took longer than the source itself. Debian's libfmt is of another version than the
// headers that libtorch brings, so this file is compiled twice: for weft_fmt and for weft_torch_fmt.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

#if FMT_VERSION < 110000  // later versions define it in the header
template locale_ref::locale_ref(const std::locale&);
template std::locale locale_ref::get<std::locale>() const;
template void buffer<char>::append(const char*, const char*);
#endif
template dragonbox::decimal_fp<float> dragonbox::to_decimal(float) noexcept;
template dragonbox::decimal_fp<double> dragonbox::to_decimal(double) noexcept;
template thousands_sep_result<char> thousands_sep_impl(locale_ref);
template thousands_sep_result<wchar_t> thousands_sep_impl(locale_ref);
template char decimal_point_impl(locale_ref);
template wchar_t decimal_point_impl(locale_ref);

}  // namespace detail
FMT_END_NAMESPACE
