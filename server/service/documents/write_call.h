// Functions that Upsert and Delete share. Internal to server/service.
#pragma once

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/guard.h"
#include "client/status.h"
#include "maxsim/v1/documents.pb.h"
#include "server/service/call/call.h"
#include "server/service/call/call_context.h"
#include "server/store/live_documents.h"

namespace maxsim::service {

inline constexpr std::string_view kBeforeWriting = "before the documents were written";

inline store::WriteCaller WriteCallerOf(const CallContext& context) {
  return {.client = context.client, .deadline = context.deadline};
}

inline v1::WriteOutcome WriteOutcomeOf(store::WriteResult::Outcome outcome) {
  switch (outcome) {
    case store::WriteResult::Outcome::kApplied:
      return v1::WRITE_OUTCOME_APPLIED;
    case store::WriteResult::Outcome::kStale:
      return v1::WRITE_OUTCOME_STALE;
    case store::WriteResult::Outcome::kNotFound:
      return v1::WRITE_OUTCOME_NOT_FOUND;
  }
  return v1::WRITE_OUTCOME_UNSPECIFIED;
}

// Fills the fields that all answers to writes have.
template <typename Response>
absl::StatusOr<Response> WriteResponseOf(const absl::StatusOr<store::WriteResults>& written) {
  if (!written.ok()) return written.status();
  return Guarded([&]() -> absl::StatusOr<Response> {
    Response response;
    response.mutable_results()->Reserve(static_cast<int>(written->results.size()));
    for (const store::WriteResult& result : written->results) {
      v1::WriteResult& added = *response.add_results();
      added.set_outcome(WriteOutcomeOf(result.outcome));
      added.set_sequence(result.sequence);
    }
    response.set_sequence(written->sequence);
    return response;
  });
}

// Answers a write that was never handed over to the collection with an error. If clients may try again after this
// error, it also says that nothing was written, so that they can do so safely.
template <typename Response>
void RefuseWrite(Call<Response>& call, absl::Status status) {
  if (absl::IsUnavailable(status) || absl::IsResourceExhausted(status)) client::SetNothingWritten(status);
  call.Finish(std::move(status));
}

}  // namespace maxsim::service
