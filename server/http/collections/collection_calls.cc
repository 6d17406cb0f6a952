#include "server/http/collections/collection_calls.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "client/info_json.h"
#include "nlohmann/json.hpp"
#include "server/http/collections/collection_body.h"
#include "server/http/collections/layout_body.h"
#include "server/http/rerank/rerank_json.h"
#include "server/http/rerank/responses.h"
#include "server/http/text/http_status.h"
#include "server/observability/log_event.h"
#include "server/service/call/call_record.h"

namespace maxsim::http {
namespace {

std::string ChangedText(const v1::CollectionInfo& info, bool changed) {
  return absl::StrCat("{\"changed\":", changed ? "true" : "false", ",\"collection\":", FormatCollection(info), "}");
}

}  // namespace

const char* MethodOf(CollectionCall call) {
  switch (call) {
    case CollectionCall::kCreate:
      return "http_create";
    case CollectionCall::kCompact:
      return "http_compact";
    case CollectionCall::kLayout:
      return "http_layout";
    case CollectionCall::kSnapshot:
      break;
  }
  return "http_snapshot";
}

std::string_view SpanNameOf(CollectionCall call) {
  switch (call) {
    case CollectionCall::kCreate:
      return "maxsim.v1.Admin/CreateCollection";
    case CollectionCall::kCompact:
      return "maxsim.v1.Admin/CompactCollection";
    case CollectionCall::kLayout:
      return "maxsim.v1.Admin/SetLayout";
    case CollectionCall::kSnapshot:
      break;
  }
  return "maxsim.v1.Admin/SnapshotCollection";
}

std::optional<CollectionCall> CollectionCalls::CallOf(const Request& request) const {
  if (!exist()) return std::nullopt;
  const std::optional<CollectionPath> path = ParseCollectionPath(request.path);
  return path.has_value() ? FindCollectionCall(request.method, *path) : std::nullopt;
}

absl::StatusOr<CollectionCalls::Change> CollectionCalls::ChangeOf(CollectionCall call, const std::string& name,
                                                                  const std::string& body) {
  switch (call) {
    case CollectionCall::kCreate: {
      absl::StatusOr<v1::CreateCollectionRequest> wanted = ParseCreateBody(body);
      if (!wanted.ok()) return wanted.status();
      wanted->set_name(name);
      return [this, wanted = *std::move(wanted)](const service::ChangeContext& change) -> absl::StatusOr<std::string> {
        const absl::StatusOr<v1::CollectionInfo> info = collections_->CreateForClient(wanted, change);
        if (!info.ok()) return info.status();
        return FormatCollection(*info);
      };
    }
    case CollectionCall::kCompact: {
      if (absl::Status status = ParseCompactBody(body).status(); !status.ok()) return status;
      return [this, name](const service::ChangeContext& change) -> absl::StatusOr<std::string> {
        bool changed = false;
        const absl::StatusOr<v1::CollectionInfo> info = collections_->Compact(name, &changed, change);
        if (!info.ok()) return info.status();
        return ChangedText(*info, changed);
      };
    }
    case CollectionCall::kLayout: {
      absl::StatusOr<v1::SetLayoutRequest> wanted = ParseLayoutBody(body);
      if (!wanted.ok()) return wanted.status();
      wanted->set_name(name);
      return [this, wanted = *std::move(wanted)](const service::ChangeContext& change) -> absl::StatusOr<std::string> {
        const absl::StatusOr<v1::SlotLayout> layout = collections_->SetLayout(wanted, change);
        if (!layout.ok()) return layout.status();
        return client::LayoutJson<nlohmann::json>(*layout).dump();
      };
    }
    case CollectionCall::kSnapshot:
      break;
  }
  const absl::StatusOr<v1::SnapshotCollectionRequest> wanted = ParseSnapshotBody(body);
  if (!wanted.ok()) return wanted.status();
  return [this, name, path = wanted->path()](const service::ChangeContext& change) -> absl::StatusOr<std::string> {
    const absl::StatusOr<uint64_t> sequence = collections_->SnapshotForClient(name, path, change);
    if (!sequence.ok()) return sequence.status();
    return absl::StrCat("{\"sequence\":", *sequence, "}");
  };
}

void CollectionCalls::Handle(const Request& request, service::CallContext context, std::shared_ptr<ReplyOnce> reply) {
  const CollectionCall call = *CallOf(request);
  std::string name = ParseCollectionPath(request.path)->name;
  context.span.SetAttribute("maxsim.method", context.method);
  context.span.SetAttribute("maxsim.collection", name);
  const tracing::SpanParent span = context.span.AsParent();
  reply->record()->SetSpan(std::move(context.span));
  absl::StatusOr<Change> change = Guarded<absl::StatusOr<Change>>([&] { return ChangeOf(call, name, request.body); });
  if (!change.ok()) return (*reply)(Error(StatusOfFailureHere(change.status()), change.status()));
  if (absl::Status status = accepts_changes_(); !status.ok()) return (*reply)(Error(status));
  log::Write(spdlog::level::info, "admin_call", {{"method", MethodOf(call)}, {"name", name}, {"peer", request.peer}});
  worker_->Post(std::move(name), service::Worker::Length::kLong, /*stop=*/nullptr,
                [change = *std::move(change), reply = std::move(reply), span](const absl::Status& turn) mutable {
                  // If memory runs out while the answer is made, the destructor of `reply` answers with a 503.
                  maxsim::Guarded([&] {
                    if (!turn.ok()) {
                      (*reply)(Error(turn));
                      return absl::OkStatus();
                    }
                    absl::StatusOr<std::string> body =
                        Guarded<absl::StatusOr<std::string>>([&] { return change({.span = span}); });
                    (*reply)(body.ok() ? Json(200, *std::move(body)) : Error(body.status()));
                    return absl::OkStatus();
                  }).IgnoreError();
                });
}

}  // namespace maxsim::http
