// Says whether this is a build with AddressSanitizer or ThreadSanitizer. There arithmetic takes ten times as long, so
// slow tests use smaller sizes.
#pragma once

namespace maxsim::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace maxsim::test
