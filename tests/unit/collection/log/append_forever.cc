// Appends records to the log in FOLDER until the process is killed. Usage: append_forever FOLDER NUM_TOKENS BATCH.
// After each batch of BATCH records, prints the last sequence that the log has acknowledged.
#include <cstdio>
#include <cstdlib>

#include "tests/unit/collection/log/log_fixture.h"

int main(int argc, char** argv) {
  using namespace maxsim::collection;  // NOLINT: a program of its own
  if (argc != 4) return 2;
  auto log = CollectionLog::Open(argv[1], SmallLogFormat(), CollectionLog::Mode::kCreate);
  if (!log.ok()) {
    std::fprintf(stderr, "%s\n", log.status().ToString().c_str());
    return 1;
  }
  while (true) {
    if (!AppendMarked(**log, std::strtoull(argv[3], nullptr, 10), std::atoi(argv[2])).ok()) return 1;
    std::printf("%llu\n", static_cast<unsigned long long>((*log)->last_sequence()));
    std::fflush(stdout);
  }
}
