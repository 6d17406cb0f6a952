// The parser's events for the body of a rerank call: rerank_body.cc reads the members, rerank_documents.cc the
// documents, and rerank_refusals.cc reports errors. Internal to server/http.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/stop.h"
#include "base/text.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/http/rerank/rerank_body.h"
#include "server/http/rerank/rerank_members.h"
#include "server/http/rerank/rerank_path.h"
#include "server/http/text/body_events.h"
#include "server/service/call/limits.h"

namespace maxsim::http {

// Handles the JSON parser's events. The depth is 1 within the body, 2 within a list or the query's object, and 3
// within a document.
class RerankEvents final : public BodyEvents {
 public:
  RerankEvents(const RerankPath& path, const service::RequestLimits& limits, const StopCheck& stop, RerankBody* body)
      : BodyEvents(kMaxDepth, stop),
        path_(path),
        limits_(limits),
        body_(*body),
        request_(body->request),
        query_(*request_.add_queries()) {}

 private:
  // The maximum depth of a body's JSON. A body of vectors has 5 levels, and a filter up to 66. Documents may have
  // members that the parser ignores, with levels of their own.
  static constexpr int kMaxDepth = 72;

  enum class Kind : uint8_t { kNone, kStringIds, kIntIds, kTexts, kTokens };

  struct Document {
    size_t begin = 0;  // of its object, in the body
    bool has_id = false;
    bool is_int = false;
    int64_t int_id = 0;
    std::string string_id;
    bool has_text = false;
    std::string text;
    bool has_tokens = false;
  };

  bool Key(std::string& key) override;
  bool SelectMember(const std::string& key);
  bool Null() override;
  bool Bool(bool value) override;
  bool Text(std::string& value) override;
  bool Integer(int64_t value) override;
  bool Number(double value, const Json& exact) override;
  bool StartList() override;
  bool EndList() override;
  bool StartObject() override;
  bool EndObject() override;
  bool EndIgnored() override;
  bool Refuse(std::string_view shown) override;
  std::string MatrixPath() const override;

  bool in_document() const { return depth() == 3 && member_ == Member::kDocuments; }
  // Whether the parser is in a list or an object that is the value of a document's member.
  bool in_document_value() const { return depth() == 4 && member_ == Member::kDocuments; }
  bool is_own_part() const { return part_ == "id" || part_ == "text" || part_ == "tokens"; }
  bool in_query_object() const { return depth() == 2 && member_ == Member::kQuery; }
  bool in_refinement() const { return depth() == 2 && member_ == Member::kRefinement; }
  std::string DocumentPath() const { return Cat(documents_name_, "[", num_documents_, "]"); }
  v1::InlineDocuments& carried() { return *request_.mutable_candidates()->mutable_inline_documents(); }

  bool MemberText(std::string& value);
  bool DocumentMember(const std::string& key);
  bool RefinementMember(const std::string& key);
  bool TakeFilter(std::string_view json);
  bool AddWeight(double value, const Json& exact);
  bool TakeMinScore(double value, const Json& exact);
  bool TakeKind(Kind kind, absl::FunctionRef<std::string()> shown);
  bool AddStringId(const std::string& id);
  bool AddIntId(int64_t id);
  bool AddText(const std::string& text);
  bool BeginTokens();
  bool EndDocument();
  bool EndBody();
  std::string IdText() const;  // as JSON
  void KeepCarried();
  bool AddRankField(const std::string& name);
  // If the body has rank_fields, makes each document's text from those of its members that rank_fields names.
  bool TakeRankFields();
  // If every document is an object with an id and strings are texts on this path, treats the objects as documents sent
  // with the body, and not as ids of stored documents.
  void CarryObjectsWithIds();
  bool RefuseQuery() { return Wrong("query", "must be a text, a list of rows of numbers, or {dtype, shape, data}"); }
  bool RefuseElement(std::string_view shown);
  bool RefuseDocuments() {
    return Wrong(documents_name_, "must be a list of documents that is not empty, or \"*\" for the whole collection");
  }
  bool UnknownMember(std::string_view name);

  // A document that the body carries.
  struct Carried {
    std::string_view object = {};  // in the body; "" for a text that is no object
    std::string id = {};           // JSON
    bool has_text = false;
    bool needs_fields = false;  // the object has no text, only members that rank_fields may name
  };

  const RerankPath& path_;
  const service::RequestLimits& limits_;
  RerankBody& body_;
  v1::RerankRequest& request_;
  v1::Query& query_;

  Member member_ = Member::kNone;  // whose value the parser reads
  uint32_t seen_ = 0;              // bits of members
  std::string documents_name_ = "documents";
  std::string top_n_name_ = "top_n";
  std::string min_score_name_ = "min_score";
  Kind kind_ = Kind::kNone;    // of the documents so far
  int64_t num_documents_ = 0;  // whole ones
  Document document_;
  std::string part_;  // the member of a document, or of the refinement, whose value the parser reads
  std::vector<std::string> refinement_parts_;  // members of the refinement so far
  size_t filter_begin_ = 0;                    // of its object, in the body
  std::vector<Carried> carried_;
  std::vector<Carried> objects_with_ids_;  // used only if the body has rank_fields; otherwise they are stored documents
  std::vector<std::string> rank_fields_;
};

}  // namespace maxsim::http
