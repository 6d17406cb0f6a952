// Runs a function on a small stack, so that an unlimited recursion fails the test in every build.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <functional>

#include "gtest/gtest.h"

namespace maxsim::test {

inline constexpr size_t kSmallStackBytes = size_t{1} << 20;

// Runs `function` on a thread with a stack of kSmallStackBytes, and waits for it. If no thread can be made, fails the
// test.
inline void RunOnSmallStack(std::function<void()> function) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  EXPECT_EQ(pthread_attr_setstacksize(&attributes, kSmallStackBytes), 0);
  const auto run = [](void* given) -> void* {
    (*static_cast<std::function<void()>*>(given))();
    return nullptr;
  };
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, run, &function);
  pthread_attr_destroy(&attributes);
  ASSERT_EQ(error, 0);
  EXPECT_EQ(pthread_join(thread, nullptr), 0);
}

}  // namespace maxsim::test
