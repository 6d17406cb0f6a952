// Writes the answer of /v1/stats: what the server did in the last ten minutes, as columns with a number per sample,
// oldest first. If a sample has no value for a column, the element is null.
//
//   {"version": ..., "commit": ..., "interval_s": 5, "age_s": A, "seconds": [...],
//    "requests": {"OK": [...], CODE: [...]}, "rejections": {REASON: [...]}, "p50_us": [...], "p99_us": [...],
//    "batch_queries": [...], "queue_jobs": [...], "encoder_calls": [...], "encoder_cache_hit_ratio": [...],
//    "writes": {OUTCOME: [...]}, "write_p50_us": [...], "write_p99_us": [...],
//    "devices": [{"number": N, "backend": ..., "name": ..., "up": true, "memory_bytes": B, "free_bytes": B,
//                 "collection_bytes": B, "budget_bytes": B, "busy": [...]}, ...]}
//
// Requests, rejections, writes and calls are numbers per second. "age_s" is the time since the newest sample ended.
// Codes, reasons and outcomes that did not occur are left out, and so is "budget_bytes" if no budget is set.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "server/observability/activity.h"

namespace maxsim::http {

// `now` is a time of MonotonicNow().
std::string FormatStats(const Activity::History& history, absl::Time now);

}  // namespace maxsim::http
