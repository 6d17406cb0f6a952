// Writes log lines to a file descriptor through a bounded queue and a thread of its own, so that logging never waits
// for the process that reads the lines.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "spdlog/sinks/sink.h"

namespace maxsim::log {

// Why a line was not written. The values are labels of a metric.
enum class DropReason {
  kReader,  // The queue was full because the reader is slow or gone, or writing failed.
  kRate,    // Clients caused more lines of its kind than are written per second.
};

// Counts the lines that this process did not write. Thread-safe.
uint64_t DroppedLines(DropReason reason);
void CountDroppedLine(DropReason reason);

// A sink that formats on the calling thread and queues the result. Lines come out whole, in the order in which they
// were logged. When the queue is full the oldest line is dropped, and a line before the next one says how many were
// dropped ("log_lines_dropped"). Thread-safe.
//
// The writer never sets O_NONBLOCK, since that flag belongs to the open file description, which other processes share.
// It polls instead, and writes at most PIPE_BUF bytes at a time: a pipe that polls as writable has room for these.
class DescriptorSink : public spdlog::sinks::sink {
 public:
  struct Options {
    size_t max_queued_bytes = size_t{1} << 20;   // of queued lines; the newest line is kept whatever its size
    std::chrono::milliseconds flush_time{1000};  // the longest that flush and the destructor wait for the reader
  };

  // Starts the writer. The caller owns `fd` and keeps it open while the sink lives.
  DescriptorSink(int fd, const Options& options);
  // Waits, for at most flush_time, until the queued lines are written. Does not wait if an earlier flush timed out and
  // the reader has read nothing since. If the writer's thread is stuck in write(2), because another process filled the
  // pipe, the thread is detached.
  ~DescriptorSink() override;
  DescriptorSink(const DescriptorSink&) = delete;
  DescriptorSink& operator=(const DescriptorSink&) = delete;

  void log(const spdlog::details::log_msg& message) override;
  // Waits, for at most flush_time, until all lines that were logged before the call are written.
  void flush() override;
  void set_pattern(const std::string& pattern) override;
  void set_formatter(std::unique_ptr<spdlog::formatter> formatter) override;

  // Installs handlers that wait a moment for this sink's writer when the process crashes (SIGABRT, SIGSEGV, ...), but
  // not for signals that already have a handler. Only the last sink of a process that calls this is flushed.
  void FlushOnCrash();

 private:
  struct State;
  static void Write(const std::shared_ptr<State>& state);

  const std::chrono::milliseconds flush_time_;
  const std::shared_ptr<State> state_;  // shared with the writer, which may outlive the sink
};

}  // namespace maxsim::log
