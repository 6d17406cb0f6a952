// Prevents false reports of ThreadSanitizer in tests whose client and server run in one process.
#pragma once

#include "base/mutex.h"
#include "grpcpp/client_context.h"

namespace maxsim::test {

// Tells TSan that a call begins before the server handles it. TSan cannot see that by itself, because gRPC's libraries
// are compiled without TSan. It would report a race if a test sets a function of its server, calls the server, and the
// server then runs the function.
//
// Thread-safe.
class CallOrder final : public grpc::ClientContext::GlobalCallbacks {
 public:
  // Call this before the first call of the process. Further calls do nothing.
  static void Begin() {
    static const bool is_set = [] {
      grpc::ClientContext::SetGlobalCallbacks(&Get());
      return true;
    }();
    static_cast<void>(is_set);
  }
  // A server calls this before it reads what a test may have set.
  static void Observe() { Get().Pass(); }

  void DefaultConstructor(grpc::ClientContext*) override { Pass(); }
  void Destructor(grpc::ClientContext*) override {}

 private:
  // gRPC uses it until the process ends, so it is never destroyed.
  static CallOrder& Get() {
    static CallOrder& order = *new CallOrder;
    return order;
  }
  // Every lock of a mutex is ordered after the unlock before it.
  void Pass() { const MutexLock lock(&mutex_); }

  Mutex mutex_;
};

}  // namespace maxsim::test
