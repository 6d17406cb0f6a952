// Names of threads, which `top -H`, `ps -L` and profilers show.
#pragma once

#include <pthread.h>

#include <cstddef>

namespace maxsim {

// Names the calling thread. The system keeps 15 characters.
template <size_t kSize>
void NameThisThread(const char (&name)[kSize]) {
  static_assert(kSize <= 16, "a longer name would be refused");
  pthread_setname_np(pthread_self(), name);
}

}  // namespace maxsim
