#include "server/cluster/router_explainer.h"

#include <string>
#include <vector>

#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "server/cluster/groups/rpcs.h"
#include "server/cluster/parts/check_rerank.h"
#include "server/cluster/parts/scatter.h"
#include "server/service/call/call_record.h"
#include "server/service/call/call_spans.h"
#include "server/service/explain.h"
#include "server/service/request/translate.h"

namespace maxsim::cluster {

struct RouterExplainer::Call {
  Metrics* metrics = nullptr;
  service::CallContext context;
  tracing::Span encode_span;
  v1::RerankRequest request;
  std::vector<std::string> query_tokens;
  bool query_truncated = false;
  service::Done<service::Explanation> done;

  ~Call() {
    if (done != nullptr) Answer(NoMemory());
  }

  void Answer(absl::StatusOr<service::Explanation> explanation) {
    service::Record(context, metrics, explanation.status());
    std::exchange(done, nullptr)(std::move(explanation));
  }
};

absl::Status RouterExplainer::CheckTexts(const v1::RerankRequest& request) const {
  if (absl::Status status = service::CheckEnvelope(request, deps_.limits); !status.ok()) return status;
  const auto collection = deps_.membership->view()->Find(request.collection());
  if (!collection.ok()) return collection.status();
  const service::TextTarget target = TextTargetOf(**collection);
  return deps_.texts->Check(request, &target, deps_.limits);
}

void RouterExplainer::Explain(v1::RerankRequest request, service::CallContext context,
                              service::Done<service::Explanation> done) {
  auto call = std::make_shared<Call>();
  call->metrics = deps_.metrics;
  call->context = std::move(context);
  call->done = std::move(done);
  service::DescribeRerank(request, call->context.method, call->context.span);
  if (!service::HasTexts(request)) {
    call->request = std::move(request);
    return Ask(std::move(call));
  }
  if (absl::Status status = Guarded([&] { return CheckTexts(request); }); !status.ok()) {
    return Finish(*call, std::move(status));
  }
  const absl::Time deadline = call->context.deadline;
  call->encode_span = service::StartEncode(call->context.span);
  encoder::TraceHeaders trace = service::HeadersOf(call->encode_span);
  deps_.texts->Encode(std::move(request), deadline, std::move(trace),
                      [this, call = std::move(call)](absl::StatusOr<service::EncodedRequest> encoded) {
                        service::EndCall(encoded.status(), call->encode_span);
                        absl::Status status = encoded.status();
                        if (status.ok()) status = Guarded([&] { return CheckTexts(encoded->request); });
                        if (!status.ok()) return Finish(*call, std::move(status));
                        call->request = std::move(encoded->request);
                        call->query_tokens = std::move(encoded->query_pieces.front());
                        call->query_truncated = encoded->truncated.queries.front().text;
                        Ask(call);
                      });
}

void RouterExplainer::Ask(std::shared_ptr<Call> call) {
  CallTarget target;
  auto request = std::make_shared<v1::RerankRequest>();
  absl::Status status = Guarded([&] {
    if (absl::Status s = service::CheckEnvelope(call->request, deps_.limits); !s.ok()) return s;
    const auto collection = deps_.membership->view()->Find(call->request.collection());
    if (!collection.ok()) return collection.status();
    *request = call->request;
    // The part that holds the id. What is no single listed id is any part's to refuse.
    const absl::StatusOr<SplitRequest> split = SplitRerank(call->request, collection->get(), deps_.limits, 0);
    if (!split.ok()) return split.status();
    target = (*collection)->parts[split->parts.front().part].target;
    return absl::OkStatus();
  });
  if (!status.ok()) return Finish(*call, std::move(status));
  const GroupCallOptions options{.deadline = DeadlineOfGroups(call->context.deadline, MonotonicNow(), deps_.timeout),
                                 .may_hedge = false,
                                 .cancelled = call->context.cancelled,
                                 .span = call->context.span.AsParent()};
  CallGroup<v1::RerankRequest, v1::ExplainResponse>(
      deps_.environment, std::move(target), options, kExplainRpc, request,
      [request](const v1::ExplainResponse& answer) { return CheckExplainAnswer(*request, answer); },
      [this, call](absl::StatusOr<v1::ExplainResponse> answer) {
        if (!answer.ok()) return Finish(*call, answer.status());
        service::Explanation explanation = service::FromProto(*answer);
        explanation.query_tokens = std::move(call->query_tokens);
        explanation.query_truncated = call->query_truncated;
        Finish(*call, std::move(explanation));
      });
}

void RouterExplainer::Finish(Call& call, absl::StatusOr<service::Explanation> explanation) {
  call.Answer(std::move(explanation));
}

}  // namespace maxsim::cluster
