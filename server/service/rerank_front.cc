#include "server/service/rerank_front.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "base/saturating.h"
#include "client/error_details.h"
#include "client/status.h"
#include "collection/collection_name.h"
#include "server/service/call/call_spans.h"
#include "server/service/call/status.h"
#include "server/service/explain.h"
#include "server/service/request/request_texts.h"
#include "server/service/request/translate.h"

namespace maxsim::service {
namespace {

Rejection RejectionOfEncoder(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return Rejection::kInvalid;
    case absl::StatusCode::kDeadlineExceeded:
      return Rejection::kDeadline;
    default:
      return Rejection::kEncoder;
  }
}

CallTimings TimingsOf(const v1::RerankResponse& response) {
  const v1::Timings& timings = response.timings();
  return {.total_us = timings.total_us(),
          .encode_us = timings.encode_us(),
          .queue_us = timings.queue_us(),
          .copy_us = timings.copy_us(),
          .kernel_us = timings.kernel_us()};
}

// Check the rules that only rerank calls or only explain calls have.
absl::Status CheckKind(const RerankCall&) { return absl::OkStatus(); }
absl::Status CheckKind(const ExplainCall& call) { return CheckExplained(call.request); }

}  // namespace

void RerankCall::Finish(absl::StatusOr<v1::RerankResponse> response) {
  if (done == nullptr) return;
  const absl::Time now = MonotonicNow();
  // gRPC cancels a call when its deadline passes. Change the status, so that metrics, span and log show the deadline as
  // the cause.
  if (response.status().code() == absl::StatusCode::kCancelled && now >= context.deadline) {
    response = absl::DeadlineExceededError("the deadline passed before the answer was ready");
  }
  if (const Tenant* const tenant = context.caller.tenant(); tenant != nullptr && token_pairs > 0) {
    metrics->tenants().AddTokenPairs(tenant->usage().label(), token_pairs);
  }
  if (response.ok()) {
    v1::Timings& timings = *response->mutable_timings();
    timings.set_total_us(absl::ToDoubleMicroseconds(now - context.arrival));
    timings.set_encode_us(absl::ToDoubleMicroseconds(encode_time));
    if (return_token_pairs) response->set_token_pairs(token_pairs);
  }
  Record(context,
         {.metrics = metrics,
          .method = context.method,
          .arrival = context.arrival,
          .span = std::move(context.span),
          .timings = response.ok() ? TimingsOf(*response) : CallTimings(),
          .queued = queued,
          .log = log,
          .request_id = std::move(request_id),
          .collection = std::move(collection)},
         response.status());
  std::exchange(done, nullptr)(std::move(response));
}

absl::Status RerankCall::Charge(uint64_t num_pairs, bool is_certain) {
  if (const Tenant* const tenant = context.caller.tenant(); tenant != nullptr) {
    const absl::Time now = MonotonicNow();
    absl::Status status;
    if (is_certain) {
      tenant->usage().AddTokenPairs(num_pairs, tenant->quotas(), now);
    } else {
      status = tenant->usage().ChargeTokenPairs(num_pairs, tenant->quotas(), now);
    }
    if (!status.ok()) return status;
  }
  token_pairs = SaturatingAdd(token_pairs, num_pairs);
  return absl::OkStatus();
}

void RerankCall::ReturnCharge() {
  const uint64_t charged = std::exchange(token_pairs, 0);
  if (const Tenant* const tenant = context.caller.tenant(); tenant != nullptr) {
    tenant->usage().ReturnTokenPairs(charged);
  }
}

void RerankCall::Refuse(Rejection reason, absl::Status status) {
  metrics->CountRejection(reason);
  Finish(std::move(status));
}

void ExplainCall::Finish(absl::StatusOr<v1::ExplainResponse> explanation) {
  if (explanation.ok() && !texts.queries.empty()) {
    TextFacts::Query& query = texts.queries.front();
    for (std::string& piece : query.pieces) explanation->add_query_tokens(std::move(piece));
    explanation->set_query_truncated(query.is_truncated);
  }
  Question::Finish(std::move(explanation));
}

Rejection Scorer::RejectionOf(const absl::Status& status) const {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return Rejection::kInvalid;
    case absl::StatusCode::kNotFound:
      return Rejection::kNotFound;
    case absl::StatusCode::kDeadlineExceeded:
      return Rejection::kDeadline;
    case absl::StatusCode::kCancelled:
      return Rejection::kCancelled;
    case absl::StatusCode::kResourceExhausted:
      return client::RetryAfter(status).has_value() ? Rejection::kQueueFull : Rejection::kMemory;
    case absl::StatusCode::kFailedPrecondition:
      if (client::ReasonOf(status) == client::kReasonOtherSlots) return Rejection::kSlots;
      return client::ReasonOf(status) == client::kReasonOtherGeneration ? Rejection::kGeneration : Rejection::kEncoder;
    default:
      return Rejection::kDevice;
  }
}

void RerankFront::Rerank(v1::RerankRequest&& request, CallContext&& context, Done<v1::RerankResponse>&& done) {
  auto call = std::make_unique<RerankCall>(metrics_, std::move(context), std::move(done));
  call->log = &log_;
  call->request_id = request.request_id().substr(0, static_cast<size_t>(kMaxRequestIdBytes));
  call->collection = request.collection().substr(0, collection::kMaxCollectionNameBytes);
  call->return_token_pairs = request.return_token_pairs();
  call->request = std::move(request);
  DescribeRerank(call->request, call->context.method, call->context.span);
  const ServingState state = state_;
  if (absl::Status status = CheckServing(state); !status.ok()) {
    return call->Refuse(state == ServingState::kLoading ? Rejection::kLoading : Rejection::kShutdown,
                        std::move(status));
  }
  Begin(std::move(call));
}

void RerankFront::Explain(v1::RerankRequest request, CallContext context, Done<v1::ExplainResponse> done) {
  auto call = std::make_unique<ExplainCall>(metrics_, std::move(context), std::move(done));
  call->request = std::move(request);
  DescribeRerank(call->request, call->context.method, call->context.span);
  Begin(std::move(call));
}

template <typename CallType>
void RerankFront::Begin(std::unique_ptr<CallType> call) {
  const bool has_texts = HasTexts(call->request);
  absl::Status status = Guarded([&] {
    // Check the request first: the encoder must do no work for a wrong one.
    absl::Status checked = CheckEnvelope(call->request, limits_);
    if (checked.ok()) checked = CheckKind(*call);
    return checked.ok() && has_texts ? CheckTextsAndTarget(call->request) : checked;
  });
  if (!status.ok()) return call->Refuse(scorer_->RejectionOf(status), status);
  if (has_texts) return Encode(std::move(call));
  scorer_->Answer(std::move(call));
}

absl::Status RerankFront::CheckTextsAndTarget(const v1::RerankRequest& request) const {
  TextTarget target;  // has no dimension if the request names no collection
  if (!request.collection().empty()) {
    absl::StatusOr<TextTarget> found = scorer_->TargetOf(request);
    if (!found.ok()) return found.status();
    target = *std::move(found);
  }
  const absl::StatusOr<encoder::EncoderIdentity> encoder = texts_->Identity();
  if (!encoder.ok()) return encoder.status();
  const bool has_target = !request.collection().empty();
  absl::Status status = CheckTexts(request, has_target ? target.dim : encoder->dim, limits_);
  return status.ok() && has_target ? CheckTarget(target, *encoder) : status;
}

template <typename CallType>
void RerankFront::Encode(std::unique_ptr<CallType> call) {
  Texts texts;
  absl::Status status = Guarded([&] {
    texts = TakeTexts(call->request, call->is_blank);
    return absl::OkStatus();
  });
  if (!status.ok()) return call->Refuse(Rejection::kMemory, std::move(status));
  const CallContext& context = call->context;
  // The callback has only two pointers, so that no memory is allocated for it.
  texts_->Encode(std::move(texts), context,
                 [this, call = std::move(call)](absl::StatusOr<EncodedTexts> encoded) mutable {
                   if (!encoded.ok()) return call->Refuse(RejectionOfEncoder(encoded.status()), encoded.status());
                   absl::Status same = Guarded([&] {
                     call->texts = PlaceTokens(*std::move(encoded), call->is_blank, call->request);
                     call->encode_time = MonotonicNow() - call->context.arrival;
                     // Check again that the encoder suits the collection: the encoder's first answer may have told its
                     // identity (model, dimension).
                     return CheckTextsAndTarget(call->request);
                   });
                   if (!same.ok()) return call->Refuse(scorer_->RejectionOf(same), same);
                   // Catch exceptions here, because the encoder's threads catch none. If memory runs out, the call is
                   // destroyed, and its destructor answers with the error.
                   Guarded([&] {
                     scorer_->Answer(std::move(call));
                     return absl::OkStatus();
                   }).IgnoreError();
                 });
}

absl::Status RerankFront::ChooseCollection(const Caller&, v1::RerankRequest* request) const {
  if (HasInlineDocumentsAlone(*request)) {
    if (!scorer_->IsServed(request->collection())) request->clear_collection();
    return absl::OkStatus();
  }
  if (!request->collection().empty()) return absl::OkStatus();
  const std::vector<std::string> names = scorer_->Names();
  if (names.empty()) {
    return InvalidField("model", "no collection is loaded, but documents are asked for by id");
  }
  if (names.size() > 1) {
    return InvalidField("model",
                        absl::StrCat("is missing, but the server has ", names.size(), " collections; name one"));
  }
  request->set_collection(names.front());
  return absl::OkStatus();
}

void RerankFront::CountUnread(std::string_view method, absl::Time arrival, const absl::Status& status) {
  metrics_->CountRequest(method, status.code(), MonotonicNow() - arrival);
  metrics_->CountRejection(absl::IsResourceExhausted(status) ? Rejection::kMemory : Rejection::kInvalid);
}

}  // namespace maxsim::service
