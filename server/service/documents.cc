#include "server/service/documents.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "collection/collection_name.h"
#include "server/observability/log_event.h"
#include "server/service/call/call.h"
#include "server/service/call/call_record.h"
#include "server/service/call/call_spans.h"
#include "server/service/call/status.h"
#include "server/service/documents/write_call.h"
#include "server/service/documents/write_guard.h"
#include "server/service/request/request_texts.h"

namespace maxsim::service {
namespace {

bool HasTexts(const v1::UpsertRequest& request) {
  return std::any_of(request.documents().begin(), request.documents().end(),
                     [](const v1::Document& document) { return !document.text().empty(); });
}

}  // namespace

struct DocumentService::UpsertCall : Call<v1::UpsertResponse> {
  using Call::Call;

  v1::UpsertRequest request;
  Submitted submitted;
  Target target;
  DocumentRules rules;
  uint64_t encoded_tokens = 0;
  std::vector<int> truncated;         // documents whose texts the encoder cut
  collection::QuantizationLoss loss;  // of all documents in the call
  std::shared_ptr<const void> claim;  // to its ids; null without `visible`
};

absl::Status DocumentService::CheckCollectionField(const std::string& name) const {
  if (!name.empty() && name.size() <= collection::kMaxCollectionNameBytes) return absl::OkStatus();
  return InvalidField("collection",
                      absl::StrCat("has ", name.size(), " bytes; must have 1 to ", collection::kMaxCollectionNameBytes),
                      {collection::kMaxCollectionNameBytes, name.size()});
}

absl::StatusOr<DocumentService::Target> DocumentService::FindTarget(const std::string& name) const {
  if (absl::Status status = CheckCollectionField(name); !status.ok()) return status;
  // Another call may replace the collection by a different one of the same name between FindLive and Find. If FindLive
  // returns the same object before and after Find, the snapshot belongs to that object.
  absl::StatusOr<std::shared_ptr<store::LiveDocuments>> live = store_->FindLive(name);
  for (int attempt = 0; attempt < 3 && live.ok(); ++attempt) {
    absl::StatusOr<std::shared_ptr<const store::Collection>> collection = store_->Find(name);
    if (!collection.ok()) return collection.status();
    absl::StatusOr<std::shared_ptr<store::LiveDocuments>> again = store_->FindLive(name);
    if (again.ok() && *again == *live) return Target{*std::move(live), *std::move(collection)};
    live = std::move(again);
  }
  if (!live.ok()) return live.status();
  return absl::UnavailableError(absl::StrCat("collection ", name, " is being replaced"));
}

absl::Status DocumentService::FindLatest(const std::string& name, Target& target) const {
  absl::StatusOr<Target> latest = FindTarget(name);
  if (!latest.ok()) return latest.status();
  if (latest->live != target.live) return absl::UnavailableError(absl::StrCat("collection ", name, " was replaced"));
  target.collection = std::move(latest->collection);
  return absl::OkStatus();
}

absl::Status DocumentService::CheckEncoder(const store::Collection& collection) const {
  const absl::StatusOr<encoder::EncoderIdentity> encoder = texts_->Identity();
  return encoder.ok() ? CheckTarget(TextTarget::Of(collection), *encoder) : encoder.status();
}

absl::Status DocumentService::CheckReplaced(const UpsertCall& call, const store::Collection& collection) const {
  return CheckReplacedVisible(call.request, collection, [&] { return CheckAwaited(call.context, kWhileFiltering); });
}

absl::Status DocumentService::Prepare(UpsertCall& call) const {
  absl::StatusOr<Target> target = FindTarget(call.request.collection());
  if (!target.ok()) return target.status();
  call.target = *std::move(target);
  call.rules = DocumentRulesOf(*call.target.collection, limits());
  if (absl::Status status = CheckDocuments(call.request, call.rules); !status.ok()) return status;
  if (absl::Status status = CheckWrittenVisible(call.request, *call.target.collection); !status.ok()) return status;
  // Submit checks this again. Now it saves the encoder work for a refused request.
  if (absl::Status status = CheckReplaced(call, *call.target.collection); !status.ok()) return status;
  return HasTexts(call.request) ? CheckEncoder(*call.target.collection) : absl::OkStatus();
}

void DocumentService::Upsert(v1::UpsertRequest request, CallContext context, Done<v1::UpsertResponse> done,
                             Submitted submitted) {
  auto call = std::make_unique<UpsertCall>(metrics(), std::move(context), std::move(done));
  call->submitted = std::move(submitted);
  call->request = std::move(request);
  DescribeDocuments(call->request.collection(), call->context.method, call->request.documents_size(),
                    call->context.span);
  absl::Status status = CheckState();
  if (status.ok()) status = Guarded([&] { return Prepare(*call); });
  if (!status.ok()) return RefuseWrite(*call, std::move(status));
  if (HasTexts(call->request)) return Encode(std::move(call));
  Submit(std::move(call));
}

void DocumentService::Encode(std::unique_ptr<UpsertCall> call) {
  Texts texts;
  texts.document_field = "documents.text";
  const absl::Status status = Guarded([&] {
    for (v1::Document& document : *call->request.mutable_documents()) {
      if (document.text().empty()) continue;
      texts.held_bytes += document.text().size();
      texts.documents.push_back(std::move(*document.mutable_text()));
    }
    return absl::OkStatus();
  });
  if (!status.ok()) return RefuseWrite(*call, status);
  const CallContext& context = call->context;
  texts_->Encode(std::move(texts), context,
                 [this, call = std::move(call)](absl::StatusOr<EncodedTexts> encoded) mutable {
                   if (!encoded.ok()) return RefuseWrite(*call, encoded.status());
                   absl::Status placed = Guarded([&] {
                     // Check again that the encoder suits the collection: the encoder's first answer may have told its
                     // identity (model, dimension).
                     if (absl::Status same = CheckEncoder(*call->target.collection); !same.ok()) return same;
                     size_t next = 0;
                     for (int i = 0; i < call->request.documents_size(); ++i) {
                       v1::Document& document = *call->request.mutable_documents(i);
                       if (document.has_tokens()) continue;
                       const encoder::EncodedText text = std::move(encoded->documents[next++]);
                       SetTokens(text, *document.mutable_tokens());
                       call->encoded_tokens += static_cast<uint64_t>(text.num_tokens);
                       if (text.is_truncated) call->truncated.push_back(i);
                     }
                     return absl::OkStatus();
                   });
                   if (!placed.ok()) return RefuseWrite(*call, std::move(placed));
                   Submit(std::move(call));
                 });
}

void DocumentService::NoteLoss(const std::string& collection, const collection::QuantizationLoss& loss) {
  metrics()->live().CountLossyTokens(collection, static_cast<uint64_t>(loss.num_zeroed),
                                     static_cast<uint64_t>(loss.num_coarse));
  // An encoder that produces outliers does so in every request. So log them at most once a minute. The metric counts
  // all of them.
  constexpr int64_t kEveryNs = int64_t{60} * 1'000'000'000;
  const int64_t now = absl::ToUnixNanos(MonotonicNow());
  int64_t next = next_loss_line_ns_;
  if (now < next || !next_loss_line_ns_.compare_exchange_strong(next, now + kEveryNs)) return;
  log::Write(spdlog::level::warn, "lossy_tokens",
             {{"collection", collection},
              {"documents", loss.num_documents},
              {"zeroed", loss.num_zeroed},
              {"coarse", loss.num_coarse},
              {"reason", "i8 keeps too little of these tokens, since others of their documents are far longer"}});
}

void DocumentService::Submit(std::unique_ptr<UpsertCall> call) {
  std::vector<store::Write> writes;
  collection::QuantizationLoss loss;
  absl::Status status = Guarded([&] {
    if (call->request.has_visible()) {
      absl::StatusOr<std::shared_ptr<const void>> claim = claims_.Claim(call->request);
      if (!claim.ok()) return claim.status();
      call->claim = *std::move(claim);
      // Look again: another write may have become visible before the ids were claimed.
      if (absl::Status latest = FindLatest(call->request.collection(), call->target); !latest.ok()) return latest;
      if (absl::Status replaced = CheckReplaced(*call, *call->target.collection); !replaced.ok()) return replaced;
    }
    writes.reserve(static_cast<size_t>(call->request.documents_size()));
    for (int i = 0; i < call->request.documents_size(); ++i) {
      absl::StatusOr<store::Write> write = ToWrite(
          *call->request.mutable_documents(i), call->rules, [i] { return DocumentPath(i); }, loss);
      if (!write.ok()) return write.status();
      writes.push_back(*std::move(write));
    }
    return CheckAwaited(call->context, kBeforeWriting);
  });
  if (!status.ok()) return RefuseWrite(*call, std::move(status));
  call->loss = loss;
  call->request.Clear();
  Submitted submitted = std::move(call->submitted);
  const std::shared_ptr<store::LiveDocuments> live = call->target.live;
  const store::WriteCaller caller = WriteCallerOf(call->context);
  status = Guarded([&] {
    live->Submit(std::move(writes), caller,
                 [this, call = std::move(call)](const absl::StatusOr<store::WriteResults>& written) {
                   absl::StatusOr<v1::UpsertResponse> response = WriteResponseOf<v1::UpsertResponse>(written);
                   if (response.ok()) {
                     response->set_encoded_tokens(call->encoded_tokens);
                     for (const int idx : call->truncated) response->mutable_results(idx)->set_truncated(true);
                   }
                   if (written.ok() && call->loss.num_tokens() > 0) NoteLoss(call->rules.collection, call->loss);
                   call->Finish(std::move(response));
                 });
    return absl::OkStatus();
  });
  // If Submit failed for lack of memory, the call's destructor has answered.
  if (status.ok() && submitted != nullptr) submitted();
}

}  // namespace maxsim::service
