// Whether a sanitizer runs the test. It then takes many times as long.
#pragma once

#if !defined(__has_feature)
#define __has_feature(feature) 0
#endif

namespace weft::test {

#if __has_feature(thread_sanitizer) || defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif
#if __has_feature(address_sanitizer) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = kThreadSanitized;
#endif

}  // namespace weft::test
