// Adds attributes and child spans to the spans of calls, for gRPC and HTTP alike. Does nothing for a call that is not
// traced.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/encoder/encoder.h"
#include "server/tracing/span.h"

namespace maxsim::service {

// Names of the spans of calls, whether they came by gRPC or by HTTP.
inline constexpr std::string_view kRerankSpan = "maxsim.v1.Reranker/Rerank";
inline constexpr std::string_view kExplainSpan = "maxsim.v1.Reranker/Explain";
inline constexpr std::string_view kUpsertSpan = "maxsim.v1.Documents/Upsert";
inline constexpr std::string_view kDeleteSpan = "maxsim.v1.Documents/Delete";
inline constexpr std::string_view kGetSpan = "maxsim.v1.Documents/Get";
inline constexpr std::string_view kScrollSpan = "maxsim.v1.Documents/Scroll";
inline constexpr std::string_view kCountSpan = "maxsim.v1.Documents/Count";
inline constexpr std::string_view kFacetsSpan = "maxsim.v1.Documents/Facets";

// Describes a rerank request in its span. `method` is its name in the metrics.
void DescribeRerank(const v1::RerankRequest& request, std::string_view method, const tracing::Span& span);

// Says what a call of Documents is about.
void DescribeDocuments(std::string_view collection, std::string_view method, int num_documents,
                       const tracing::Span& span);

// Describes a call that counts or lists documents in its span.
void DescribeCount(std::string_view collection, std::string_view method, const tracing::Span& span);

// The timings in a rerank call's answer (v1::Timings), in microseconds. All are 0 if the call was not scored. Most
// calls only need the numbers, so this is a plain struct: the message takes longer to make, move and destroy.
struct CallTimings {
  double total_us = 0;
  double encode_us = 0;
  double queue_us = 0;
  double copy_us = 0;
  double kernel_us = 0;
};

// Ends the span of a call. If a rerank call was scored, adds `timings` as attributes, and the child spans "queue" and
// "score". `queued` is when the job was submitted, or InfinitePast if it was not.
void EndRerank(const absl::Status& status, const CallTimings& timings, absl::Time queued, absl::Time now,
               tracing::Span& span);

// Ends the span of another call.
void EndCall(const absl::Status& status, tracing::Span& span);

// Returns the span "encode" of a call whose texts an encoder turns into vectors.
tracing::Span StartEncode(const tracing::Span& call);

// Returns the span "group_call" of a router's attempt to have a group of servers carry out part of a call. `group` and
// `replica` are names in the cluster. `attempt` is 0 for the first replica that is asked. `is_hedge` says that the
// previous attempt has not been answered yet.
tracing::Span StartGroupAttempt(const tracing::SpanParent& call, std::string_view group, std::string_view replica,
                                int attempt, bool is_hedge);

// Returns the headers that tell the encoder about the span `encode`.
encoder::TraceHeaders HeadersOf(const tracing::Span& encode);

}  // namespace maxsim::service
