// Tells ThreadSanitizer about abseil's locks.
//
// The distribution's abseil is built without -fsanitize=thread and makes its locks with futexes. So TSan sees no
// order between a thread that unlocks an absl::Mutex and the thread that locks it next, and would report every
// guarded variable as a race. This file is linked into TSan builds only. The linker sends calls of the functions
// below through wrappers (-Wl,--wrap, set in cmake/MaxsimSanitizers.cmake), which add the missing order.
//
// An acquire or a release of the lock's address says to TSan what the lock guarantees, and for readers slightly more.
// The thread that unlocks evaluates the conditions of waiting threads. It still holds the lock then, but TSan cannot
// know that, so TSan is told to ignore these reads. Notification::HasBeenNotified is inline and cannot be wrapped.
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
}

namespace {

using absl::BlockingCounter;
using absl::Condition;
using absl::CondVar;
using absl::Duration;
using absl::Mutex;
using absl::Notification;
using absl::Time;

struct IgnoreReads {
  IgnoreReads() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~IgnoreReads() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
};

void Acquire(const void* lock) { __tsan_acquire(const_cast<void*>(lock)); }
void Release(const void* lock) { __tsan_release(const_cast<void*>(lock)); }

}  // namespace

// MAXSIM_ABSL is the mangled namespace, such as "N4absl7debian3". A member function takes `this` as its first
// argument.
#define REAL(symbol) asm("__real__Z" symbol)
#define WRAP(symbol) asm("__wrap__Z" symbol)
#define IN_ABSL(name) MAXSIM_ABSL name
#define IN_ABSL_CONST(name) MAXSIM_ABSL_CONST name

// Calls that take a lock.
#define WRAP_ACQUIRE(id, symbol)            \
  void Real##id(Mutex* mu) REAL(symbol);    \
  void Wrapped##id(Mutex* mu) WRAP(symbol); \
  void Wrapped##id(Mutex* mu) {             \
    Real##id(mu);                           \
    Acquire(mu);                            \
  }
WRAP_ACQUIRE(Lock, IN_ABSL("5Mutex4LockEv"))
WRAP_ACQUIRE(ReaderLock, IN_ABSL("5Mutex10ReaderLockEv"))

#define WRAP_TRY(id, symbol)                \
  bool Real##id(Mutex* mu) REAL(symbol);    \
  bool Wrapped##id(Mutex* mu) WRAP(symbol); \
  bool Wrapped##id(Mutex* mu) {             \
    const bool taken = Real##id(mu);        \
    if (taken) Acquire(mu);                 \
    return taken;                           \
  }
WRAP_TRY(TryLock, IN_ABSL("5Mutex7TryLockEv"))
WRAP_TRY(ReaderTryLock, IN_ABSL("5Mutex13ReaderTryLockEv"))

// Wraps calls that release the lock. They may evaluate the conditions that other threads wait for.
#define WRAP_RELEASE(id, symbol)            \
  void Real##id(Mutex* mu) REAL(symbol);    \
  void Wrapped##id(Mutex* mu) WRAP(symbol); \
  void Wrapped##id(Mutex* mu) {             \
    Release(mu);                            \
    IgnoreReads ignore;                     \
    Real##id(mu);                           \
  }
WRAP_RELEASE(Unlock, IN_ABSL("5Mutex6UnlockEv"))
WRAP_RELEASE(ReaderUnlock, IN_ABSL("5Mutex12ReaderUnlockEv"))

// Wraps calls that release the lock while they wait, and hold it when they return. LockWhen does not hold the lock at
// first: the release for it does no harm, because nothing is guarded yet.
#define WRAP_WAIT(id, symbol)                                           \
  void Real##id(Mutex* mu, const Condition& condition) REAL(symbol);    \
  void Wrapped##id(Mutex* mu, const Condition& condition) WRAP(symbol); \
  void Wrapped##id(Mutex* mu, const Condition& condition) {             \
    Release(mu);                                                        \
    {                                                                   \
      IgnoreReads ignore;                                               \
      Real##id(mu, condition);                                          \
    }                                                                   \
    Acquire(mu);                                                        \
  }
WRAP_WAIT(Await, IN_ABSL("5Mutex5AwaitERKNS0_9ConditionE"))
WRAP_WAIT(LockWhen, IN_ABSL("5Mutex8LockWhenERKNS0_9ConditionE"))
WRAP_WAIT(ReaderLockWhen, IN_ABSL("5Mutex14ReaderLockWhenERKNS0_9ConditionE"))

#define WRAP_TIMED_WAIT(id, Limit, symbol)                                           \
  bool Real##id(Mutex* mu, const Condition& condition, Limit limit) REAL(symbol);    \
  bool Wrapped##id(Mutex* mu, const Condition& condition, Limit limit) WRAP(symbol); \
  bool Wrapped##id(Mutex* mu, const Condition& condition, Limit limit) {             \
    Release(mu);                                                                     \
    bool holds;                                                                      \
    {                                                                                \
      IgnoreReads ignore;                                                            \
      holds = Real##id(mu, condition, limit);                                        \
    }                                                                                \
    Acquire(mu);                                                                     \
    return holds;                                                                    \
  }
WRAP_TIMED_WAIT(AwaitWithTimeout, Duration, IN_ABSL("5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE"))
WRAP_TIMED_WAIT(AwaitWithDeadline, Time, IN_ABSL("5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE"))
WRAP_TIMED_WAIT(LockWhenWithTimeout, Duration, IN_ABSL("5Mutex19LockWhenWithTimeoutERKNS0_9ConditionENS0_8DurationE"))
WRAP_TIMED_WAIT(LockWhenWithDeadline, Time, IN_ABSL("5Mutex20LockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE"))

// Wraps condition variables. Signal and SignalAll are not wrapped, because they guarantee no order.
void RealWait(CondVar* cv, Mutex* mu) REAL(IN_ABSL("7CondVar4WaitEPNS0_5MutexE"));
void WrappedWait(CondVar* cv, Mutex* mu) WRAP(IN_ABSL("7CondVar4WaitEPNS0_5MutexE"));
void WrappedWait(CondVar* cv, Mutex* mu) {
  Release(mu);
  {
    IgnoreReads ignore;
    RealWait(cv, mu);
  }
  Acquire(mu);
}

#define WRAP_TIMED_CONDVAR(id, Limit, symbol)                         \
  bool Real##id(CondVar* cv, Mutex* mu, Limit limit) REAL(symbol);    \
  bool Wrapped##id(CondVar* cv, Mutex* mu, Limit limit) WRAP(symbol); \
  bool Wrapped##id(CondVar* cv, Mutex* mu, Limit limit) {             \
    Release(mu);                                                      \
    bool timed_out;                                                   \
    {                                                                 \
      IgnoreReads ignore;                                             \
      timed_out = Real##id(cv, mu, limit);                            \
    }                                                                 \
    Acquire(mu);                                                      \
    return timed_out;                                                 \
  }
WRAP_TIMED_CONDVAR(WaitWithTimeout, Duration, IN_ABSL("7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE"))
WRAP_TIMED_CONDVAR(WaitWithDeadline, Time, IN_ABSL("7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE"))

// Notification and BlockingCounter.
void RealNotify(Notification* notification) REAL(IN_ABSL("12Notification6NotifyEv"));
void WrappedNotify(Notification* notification) WRAP(IN_ABSL("12Notification6NotifyEv"));
void WrappedNotify(Notification* notification) {
  Release(notification);
  RealNotify(notification);
}

void RealAwaitNotified(const Notification* notification) REAL(IN_ABSL_CONST("12Notification19WaitForNotificationEv"));
void WrappedAwaitNotified(const Notification* notification)
    WRAP(IN_ABSL_CONST("12Notification19WaitForNotificationEv"));
void WrappedAwaitNotified(const Notification* notification) {
  RealAwaitNotified(notification);
  Acquire(notification);
}

#define WRAP_TIMED_NOTIFICATION(id, Limit, symbol)                              \
  bool Real##id(const Notification* notification, Limit limit) REAL(symbol);    \
  bool Wrapped##id(const Notification* notification, Limit limit) WRAP(symbol); \
  bool Wrapped##id(const Notification* notification, Limit limit) {             \
    const bool notified = Real##id(notification, limit);                        \
    if (notified) Acquire(notification);                                        \
    return notified;                                                            \
  }
WRAP_TIMED_NOTIFICATION(NotifiedWithTimeout, Duration,
                        IN_ABSL_CONST("12Notification30WaitForNotificationWithTimeoutENS0_8DurationE"))
WRAP_TIMED_NOTIFICATION(NotifiedWithDeadline, Time,
                        IN_ABSL_CONST("12Notification31WaitForNotificationWithDeadlineENS0_4TimeE"))

bool RealDecrement(BlockingCounter* counter) REAL(IN_ABSL("15BlockingCounter14DecrementCountEv"));
bool WrappedDecrement(BlockingCounter* counter) WRAP(IN_ABSL("15BlockingCounter14DecrementCountEv"));
bool WrappedDecrement(BlockingCounter* counter) {
  Release(counter);
  return RealDecrement(counter);
}

void RealCounterWait(BlockingCounter* counter) REAL(IN_ABSL("15BlockingCounter4WaitEv"));
void WrappedCounterWait(BlockingCounter* counter) WRAP(IN_ABSL("15BlockingCounter4WaitEv"));
void WrappedCounterWait(BlockingCounter* counter) {
  RealCounterWait(counter);
  Acquire(counter);
}
