// Reads the documents of a rerank call.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "server/http/rerank/rerank_events.h"

namespace maxsim::http {

// A member of an object among the documents.
bool RerankEvents::DocumentMember(const std::string& key) {
  part_ = key;
  if (!is_own_part()) return true;
  const bool is_known = (key == "id" && document_.has_id) || (key == "text" && document_.has_text) ||
                        (key == "tokens" && document_.has_tokens);
  return !is_known || Wrong(Cat(DocumentPath(), ".", key), "appears twice");
}

// Returns whether a document of this kind may follow the ones before it. `shown` returns the document's text for an
// error message.
bool RerankEvents::TakeKind(Kind kind, absl::FunctionRef<std::string()> shown) {
  if (kind_ == Kind::kNone) kind_ = kind;
  if (kind_ != kind) return RefuseElement(shown());
  const bool is_stored = kind == Kind::kStringIds || kind == Kind::kIntIds;
  const int64_t limit = is_stored ? limits_.max_candidates_per_query : limits_.max_inline_documents;
  if (num_documents_ < limit) return true;
  const std::string_view key = is_stored ? "limits.max_candidates_per_query" : "limits.max_inline_documents";
  return Wrong(documents_name_, Cat("has more than ", limit, is_stored ? " ids (" : " documents (", key, ")"),
               {limit, key});
}

bool RerankEvents::AddStringId(const std::string& id) {
  if (!TakeKind(Kind::kStringIds, [&] { return Shown(id); })) return false;
  request_.mutable_candidates()->mutable_string_ids()->add_ids(id);
  ++num_documents_;
  return true;
}

bool RerankEvents::AddIntId(int64_t id) {
  if (!TakeKind(Kind::kIntIds, [&] { return Cat(id); })) return false;
  request_.mutable_candidates()->mutable_int_ids()->add_ids(id);
  ++num_documents_;
  return true;
}

bool RerankEvents::AddText(const std::string& text) {
  if (!TakeKind(Kind::kTexts, [&] { return Shown(text); })) return false;
  carried().add_texts(text);
  carried_.push_back({});
  ++num_documents_;
  return true;
}

bool RerankEvents::BeginTokens() {
  document_.has_tokens = true;
  return TakeKind(Kind::kTokens, [] { return std::string("an object with tokens"); });
}

bool RerankEvents::EndDocument() {
  if (document_.has_text && document_.has_tokens) return Wrong(DocumentPath(), "has text and tokens");
  if (document_.has_text) {
    if (!AddText(document_.text)) return false;
  } else if (document_.has_tokens) {
    carried_.push_back({});
    ++num_documents_;
  } else if (document_.has_id) {
    if (path_.strings_are_texts) objects_with_ids_.push_back({Since(document_.begin), IdText(), true});
    return document_.is_int ? AddIntId(document_.int_id) : AddStringId(document_.string_id);
  } else {
    if (!AddText("")) return false;
    carried_.back().needs_fields = true;
  }
  Carried& carried = carried_.back();
  carried.object = Since(document_.begin);
  carried.has_text = !document_.has_tokens;
  if (document_.has_id) carried.id = IdText();
  return true;
}

std::string RerankEvents::IdText() const {
  return document_.is_int ? Cat(document_.int_id) : Json(document_.string_id).dump();
}

void RerankEvents::CarryObjectsWithIds() {
  if (objects_with_ids_.empty() || static_cast<int64_t>(objects_with_ids_.size()) != num_documents_) return;
  request_.clear_candidates();
  carried_ = std::move(objects_with_ids_);
  for (size_t i = 0; i < carried_.size(); ++i) carried().add_texts("");
  kind_ = Kind::kTexts;
}

bool RerankEvents::TakeRankFields() {
  if (!rank_fields_.empty()) CarryObjectsWithIds();
  for (size_t i = 0; i < carried_.size(); ++i) {
    if (carried_[i].object.empty() || !carried_[i].has_text) continue;
    if (rank_fields_.empty()) {
      if (!carried_[i].needs_fields) continue;
      return Wrong(Cat(documents_name_, "[", i, "]"), "has none of id, text and tokens");
    }
    const Json object = Json::parse(carried_[i].object.begin(), carried_[i].object.end());
    std::string text;
    bool has_any = false;
    for (const std::string& field : rank_fields_) {
      const auto found = object.find(field);
      if (found == object.end() || found->is_null()) continue;
      has_any = true;
      if (!text.empty()) text += '\n';
      text += found->is_string() ? found->get<std::string>() : found->dump();
    }
    if (!has_any) {
      return Wrong(Cat(documents_name_, "[", i, "]"), "has none of the members that rank_fields names");
    }
    carried().set_texts(static_cast<int>(i), text);
  }
  return true;
}

// Keeps those parts of the documents in the body that the answer will repeat.
void RerankEvents::KeepCarried() {
  const v1::InlineDocuments& inline_documents = request_.candidates().inline_documents();
  for (size_t i = 0; i < carried_.size(); ++i) {
    CarriedDocument& kept = body_.form.carried.emplace_back();
    kept.id = std::move(carried_[i].id);
    if (!request_.return_payloads()) continue;
    if (carried_[i].has_text) kept.object = carried_[i].object;
    if (kind_ == Kind::kTexts) kept.text = inline_documents.texts(static_cast<int>(i));
  }
}

}  // namespace maxsim::http
