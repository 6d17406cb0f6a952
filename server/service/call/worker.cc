#include "server/service/call/worker.h"

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/thread_name.h"

namespace maxsim::service {
namespace {

constexpr size_t kMaxThreads = Worker::kMaxLong + 1;  // one thread is reserved for short tasks

absl::Status WorkerStopped() { return absl::UnavailableError("the server is draining"); }

absl::Status TooManyTasks() {
  return absl::ResourceExhaustedError(
      absl::StrCat("more than ", Worker::kMaxWaiting, " changes of collections are waiting"));
}

}  // namespace

Worker::Worker() {
  const MutexLock lock(&mutex_);
  // Start the first thread here: without it no task would ever run. If it cannot be started, the server does not start.
  threads_.emplace_back([this] { Run(); });
}

Worker::~Worker() {
  Stop();
  for (std::thread& thread : threads_) thread.join();
}

void Worker::Post(std::string key, Length length, std::shared_ptr<const StopSignal> stop, Task task) {
  absl::Status refused;
  {
    const MutexLock lock(&mutex_);
    // Read the signal while locked. If it is stopped later, Withdraw finds the task.
    refused = stopping_ ? WorkerStopped() : tasks_.size() >= kMaxWaiting ? TooManyTasks() : StopStatus(stop.get());
    if (refused.ok()) {
      tasks_.push_back({std::move(key), length, std::move(stop), std::move(task)});
      StartThread();
      wake_.NotifyOne();
      return;
    }
  }
  task(refused);
}

void Worker::Withdraw(const StopSignal* stop) {
  Task task;
  {
    const MutexLock lock(&mutex_);
    const auto found =
        std::find_if(tasks_.begin(), tasks_.end(), [&](const Waiting& waiting) { return waiting.stop.get() == stop; });
    if (found == tasks_.end()) return;
    task = std::move(found->task);
    tasks_.erase(found);
  }
  task(stop->status());
}

void Worker::Stop() {
  std::deque<Waiting> dropped;
  {
    const MutexLock lock(&mutex_);
    stopping_ = true;
    dropped = std::exchange(tasks_, {});
  }
  wake_.NotifyAll();
  for (Waiting& waiting : dropped) waiting.task(WorkerStopped());
}

std::deque<Worker::Waiting>::iterator Worker::NextTask() {
  // Tasks of one key run one after another: only its first may run now.
  std::set<std::string_view> passed;
  for (auto task = tasks_.begin(); task != tasks_.end(); ++task) {
    const bool has_room = task->length == Length::kShort || num_long_ < kMaxLong;
    if (has_room && running_.count(task->key) == 0 && passed.count(task->key) == 0) return task;
    passed.insert(task->key);
  }
  return tasks_.end();
}

void Worker::StartThread() {
  if (stopping_ || num_idle_ > 0 || threads_.size() >= kMaxThreads || NextTask() == tasks_.end()) return;
  try {
    threads_.emplace_back([this] { Run(); });
  } catch (const std::system_error&) {
  }
}

void Worker::Run() {
  NameThisThread("worker");
  MutexLock lock(&mutex_);
  while (!stopping_) {
    const auto next = NextTask();
    if (next == tasks_.end()) {
      ++num_idle_;
      wake_.Wait(lock);
      --num_idle_;
      continue;
    }
    Waiting taken = std::move(*next);
    tasks_.erase(next);
    const std::string key = taken.key;
    running_.insert(key);
    num_long_ += taken.length == Length::kLong ? 1 : 0;
    // Another thread takes the tasks that remain.
    StartThread();
    lock.Unlock();
    const Length length = taken.length;
    taken.task(StopStatus(taken.stop.get()));
    taken = {};
    lock.Lock();
    running_.erase(key);
    num_long_ -= length == Length::kLong ? 1 : 0;
    // The end of this task may allow more than one other task to run.
    wake_.NotifyAll();
  }
}

}  // namespace maxsim::service
