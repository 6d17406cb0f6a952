#include "server/cluster/router_reranker.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "client/status.h"
#include "server/cluster/groups/rpcs.h"
#include "server/cluster/parts/check_rerank.h"
#include "server/cluster/parts/merge.h"
#include "server/cluster/parts/scatter.h"
#include "server/service/call/call_record.h"
#include "server/service/call/call_spans.h"
#include "server/service/call/status.h"
#include "server/service/request/translate.h"

namespace maxsim::cluster {
namespace {

using service::ServingState;

// How often a request begins anew because the groups went on to another generation meanwhile.
constexpr int kMaxAttempts = 4;

Rejection RejectionOf(const absl::Status& status) {
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
      return IsOtherGeneration(status) ? Rejection::kGeneration : Rejection::kEncoder;
    default:
      return Rejection::kDevice;
  }
}

}  // namespace

service::TextTarget TextTargetOf(const CollectionView& collection) {
  service::TextTarget target{collection.name, static_cast<int32_t>(collection.info.dim()), std::nullopt};
  if (collection.info.has_encoder()) {
    const v1::EncoderInfo& encoder = collection.info.encoder();
    target.encoder = {
        .model = encoder.model(), .fingerprint = encoder.fingerprint(), .dim = static_cast<int32_t>(encoder.dim())};
  }
  return target;
}

struct RouterReranker::Call {
  Metrics* metrics = nullptr;
  service::CallContext context;
  v1::RerankRequest request;  // its texts are encoded once
  absl::Duration encode_time;
  tracing::Span encode_span;
  std::vector<std::vector<std::string>> query_pieces;
  uint64_t encoded_tokens = 0;
  service::TruncatedTexts truncated;
  service::Done<v1::RerankResponse> done;
  int num_attempts = 0;
  // These belong to the attempt under way.
  std::shared_ptr<const CollectionView> collection;
  SplitRequest split;

  ~Call() {
    if (done != nullptr) Answer(NoMemory());
  }

  void Answer(absl::StatusOr<v1::RerankResponse> response);
};

absl::Status RouterReranker::CheckState() const {
  const ServingState state = state_;
  absl::Status status = service::CheckServing(state);
  if (!status.ok()) {
    deps_.metrics->CountRejection(state == ServingState::kLoading ? Rejection::kLoading : Rejection::kShutdown);
  }
  return status;
}

void RouterReranker::Rerank(v1::RerankRequest request, service::CallContext context,
                            service::Done<v1::RerankResponse> done) {
  auto call = std::make_shared<Call>();
  call->metrics = deps_.metrics;
  call->context = std::move(context);
  call->request = std::move(request);
  call->done = std::move(done);
  service::DescribeRerank(call->request, call->context.method, call->context.span);
  if (absl::Status status = CheckState(); !status.ok()) return Finish(*call, std::move(status));
  if (service::HasTexts(call->request)) return Encode(std::move(call));
  Score(std::move(call));
}

absl::Status RouterReranker::CheckTexts(const v1::RerankRequest& request) const {
  if (absl::Status status = service::CheckEnvelope(request, deps_.limits); !status.ok()) return status;
  if (request.collection().empty()) return deps_.texts->Check(request, nullptr, deps_.limits);
  const auto collection = deps_.membership->view()->Find(request.collection());
  if (!collection.ok()) return collection.status();
  const service::TextTarget target = TextTargetOf(**collection);
  return deps_.texts->Check(request, &target, deps_.limits);
}

void RouterReranker::Encode(std::shared_ptr<Call> call) {
  // What is wrong anyway costs the encoder nothing.
  absl::Status status = Guarded([&] { return CheckTexts(call->request); });
  if (!status.ok()) {
    deps_.metrics->CountRejection(RejectionOf(status));
    return Finish(*call, std::move(status));
  }
  v1::RerankRequest request = std::move(call->request);
  const absl::Time deadline = call->context.deadline;
  call->encode_span = service::StartEncode(call->context.span);
  encoder::TraceHeaders trace = service::HeadersOf(call->encode_span);
  deps_.texts->Encode(std::move(request), deadline, std::move(trace),
                      [this, call = std::move(call)](absl::StatusOr<service::EncodedRequest> encoded) {
                        call->encode_time = MonotonicNow() - call->context.arrival;
                        service::EndCall(encoded.status(), call->encode_span);
                        absl::Status same = encoded.status();
                        // By its first answer the encoder has said who it is.
                        if (same.ok()) same = Guarded([&] { return CheckTexts(encoded->request); });
                        if (!same.ok()) {
                          deps_.metrics->CountRejection(Rejection::kEncoder);
                          return Finish(*call, std::move(same));
                        }
                        call->request = std::move(encoded->request);
                        call->query_pieces = std::move(encoded->query_pieces);
                        call->encoded_tokens = encoded->num_tokens;
                        call->truncated = std::move(encoded->truncated);
                        Score(call);
                      });
}

void RouterReranker::Score(std::shared_ptr<Call> call) {
  ++call->num_attempts;
  std::vector<CallTarget> targets;
  std::vector<std::shared_ptr<const v1::RerankRequest>> requests;
  std::vector<AnswerCheck<v1::RerankResponse>> checks;
  absl::Status status = Guarded([&] {
    if (absl::Status s = service::CheckEnvelope(call->request, deps_.limits); !s.ok()) return s;
    const std::shared_ptr<const View> view = deps_.membership->view();
    const uint64_t turn = turn_.fetch_add(1, std::memory_order_relaxed);
    call->collection = nullptr;
    if (!call->request.collection().empty()) {
      auto collection = view->Find(call->request.collection());
      if (!collection.ok()) return collection.status();
      call->collection = *std::move(collection);
    }
    absl::StatusOr<SplitRequest> split = SplitRerank(call->request, call->collection.get(), deps_.limits, turn);
    if (!split.ok()) return split.status();
    call->split = *std::move(split);
    for (const PartRequest& part : call->split.parts) {
      requests.push_back(part.request);
      checks.emplace_back([request = part.request, asked = AskedPartOf(part, call->collection.get())](
                              const v1::RerankResponse& answer) { return CheckRerankAnswer(*request, asked, answer); });
      if (part.part != PartRequest::kAnyGroup) {
        targets.push_back(call->collection->parts[part.part].target);
        continue;
      }
      absl::StatusOr<CallTarget> any = view->AnyGroup(turn);
      if (!any.ok()) return any.status();
      targets.push_back(*std::move(any));
    }
    return absl::OkStatus();
  });
  if (!status.ok()) {
    deps_.metrics->CountRejection(RejectionOf(status));
    return Finish(*call, std::move(status));
  }
  const GroupCallOptions options{.deadline = DeadlineOfGroups(call->context.deadline, MonotonicNow(), deps_.timeout),
                                 .may_hedge = true,
                                 .cancelled = call->context.cancelled,
                                 .span = call->context.span.AsParent()};
  Scatter<v1::RerankRequest, v1::RerankResponse>(
      deps_.environment, std::move(targets), std::move(requests), std::move(checks), options, kRerankRpc,
      [this, call](std::vector<absl::StatusOr<v1::RerankResponse>> answers) { Gather(call, std::move(answers)); });
}

bool RouterReranker::OthersMayAnswer(const Call& call, const std::vector<absl::StatusOr<v1::RerankResponse>>& answers) {
  for (size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].ok() || !IsLost(answers[i].status())) continue;
    const PartRequest& part = call.split.parts[i];
    if (part.part == PartRequest::kAnyGroup) return true;
    const CallTarget& target = call.collection->parts[part.part].target;
    if (target.replicas.size() < target.group->replicas().size()) return true;
    const bool has_inline = std::any_of(part.queries.begin(), part.queries.end(), [&](int query) {
      return call.split.queries[static_cast<size_t>(query)].kind == SplitRequest::Query::Kind::kInline;
    });
    if (has_inline) return true;
  }
  return false;
}

void RouterReranker::Gather(const std::shared_ptr<Call>& call,
                            std::vector<absl::StatusOr<v1::RerankResponse>> answers) {
  const bool other_generation =
      std::any_of(answers.begin(), answers.end(),
                  [](const absl::StatusOr<v1::RerankResponse>& answer) { return IsOtherGeneration(answer.status()); });
  // The groups have gone on meanwhile, or back: they are asked what they have now.
  const bool again = (other_generation && call->num_attempts < kMaxAttempts) ||
                     (call->num_attempts == 1 && OthersMayAnswer(*call, answers));
  if (again && call->request.generation() == 0 && MonotonicNow() < call->context.deadline) {
    absl::Status returned = Guarded([&] {
      ReturnInlineDocuments(call->split, call->request);
      return absl::OkStatus();
    });
    if (!returned.ok()) return Finish(*call, std::move(returned));
    return deps_.membership->RefreshThen([this, call] {
      // Without memory the call is answered as it goes.
      Guarded([&] {
        Score(call);
        return absl::OkStatus();
      }).IgnoreError();
    });
  }
  absl::StatusOr<v1::RerankResponse> response = Guarded([&] {
    absl::StatusOr<v1::RerankResponse> merged =
        MergeRerank(call->split, call->collection.get(), std::move(answers), deps_.limits);
    if (merged.ok()) service::MarkTruncated(call->truncated, *merged);
    return merged;
  });
  if (response.ok()) {
    response->set_encoded_tokens(call->encoded_tokens);
    for (size_t i = 0; i < call->query_pieces.size() && call->request.return_alignments(); ++i) {
      for (std::string& piece : call->query_pieces[i]) {
        response->mutable_results(static_cast<int>(i))->add_query_tokens(std::move(piece));
      }
    }
  } else {
    deps_.metrics->CountRejection(RejectionOf(response.status()));
  }
  Finish(*call, std::move(response));
}

void RouterReranker::Finish(Call& call, absl::StatusOr<v1::RerankResponse> response) {
  call.Answer(std::move(response));
}

void RouterReranker::Call::Answer(absl::StatusOr<v1::RerankResponse> response) {
  const absl::Time now = MonotonicNow();
  if (response.status().code() == absl::StatusCode::kCancelled && now >= context.deadline) {
    response = absl::DeadlineExceededError("the deadline passed before the answer was ready");
  }
  if (response.ok()) {
    response->mutable_timings()->set_total_us(absl::ToDoubleMicroseconds(now - context.arrival));
    response->mutable_timings()->set_encode_us(absl::ToDoubleMicroseconds(encode_time));
  }
  service::Record(context,
                  {.metrics = metrics,
                   .method = context.method,
                   .arrival = context.arrival,
                   .span = std::move(context.span),
                   .timings = response.ok() ? response->timings() : v1::Timings()},
                  response.status());
  std::exchange(done, nullptr)(std::move(response));
}

absl::Status RouterReranker::ChooseCollection(v1::RerankRequest* request) const {
  const std::shared_ptr<const View> view = deps_.membership->view();
  const auto is_served = [&](const std::string& name) { return !absl::IsNotFound(view->Find(name).status()); };
  const auto names = [&] {
    std::vector<std::string> all;
    for (const auto& [name, collection] : view->collections()) all.push_back(name);
    return all;
  };
  return service::ChooseCollection(is_served, names, request);
}

void RouterReranker::CountUnread(std::string_view method, absl::Time arrival, const absl::Status& status) {
  deps_.metrics->CountRequest(method, status.code(), MonotonicNow() - arrival);
  deps_.metrics->CountRejection(absl::IsResourceExhausted(status) ? Rejection::kMemory : Rejection::kInvalid);
}

}  // namespace maxsim::cluster
