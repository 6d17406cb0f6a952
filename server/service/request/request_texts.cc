#include "server/service/request/request_texts.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/limits.h"
#include "server/service/call/status.h"
#include "server/service/request/blank_text.h"

namespace maxsim::service {
namespace {

using encoder::EncodedText;

// The maximum size, in bytes, of the vectors that a request's blank documents get.
constexpr uint64_t kMaxBlankBytes = uint64_t{64} << 20;

constexpr char kDocumentTexts[] = "inline_documents.texts";

// Returns the inline documents of the request, then those of its queries.
std::vector<v1::InlineDocuments*> InlineLists(v1::RerankRequest& request) {
  std::vector<v1::InlineDocuments*> lists;
  if (request.candidates().has_inline_documents()) {
    lists.push_back(request.mutable_candidates()->mutable_inline_documents());
  }
  for (v1::Query& query : *request.mutable_queries()) {
    if (query.candidates().has_inline_documents()) {
      lists.push_back(query.mutable_candidates()->mutable_inline_documents());
    }
  }
  return lists;
}

absl::Status CheckQueryTexts(const v1::RerankRequest& request) {
  for (int i = 0; i < request.queries_size(); ++i) {
    const v1::Query& query = request.queries(i);
    if (!query.has_text()) continue;
    if (IsBlank(query.text())) return InvalidField(absl::StrCat("queries[", i, "].text"), "is empty");
    if (query.has_tokens()) {
      return InvalidField(absl::StrCat("queries[", i, "]"), "has tokens and text; must have only one of them");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDocumentTexts(const v1::InlineDocuments& list, const std::string& path, const RequestLimits& limits) {
  if (list.texts().empty()) return absl::OkStatus();
  if (!list.documents().empty()) {
    return InvalidField(absl::StrCat(path, ".inline_documents"), "has documents and texts; must have only one of them");
  }
  if (list.texts_size() > limits.max_inline_documents) {
    return InvalidField(absl::StrCat(path, ".", kDocumentTexts),
                        absl::StrCat("has ", list.texts_size(), " documents; must have 1 to ",
                                     limits.max_inline_documents, " (limits.max_inline_documents)"),
                        {limits.max_inline_documents, list.texts_size(), "limits.max_inline_documents"});
  }
  return absl::OkStatus();
}

int64_t NumBlankTexts(const v1::InlineDocuments& list) {
  return std::count_if(list.texts().begin(), list.texts().end(), [](const std::string& text) { return IsBlank(text); });
}

// Returns INVALID_ARGUMENT if the vectors of the request's blank documents may take more than kMaxBlankBytes. Their
// dimension may become `dim` or that of the first query's vectors, so counts the larger one.
absl::Status CheckBlankTexts(const v1::RerankRequest& request, int32_t dim) {
  int64_t num_blank = NumBlankTexts(request.candidates().inline_documents());
  for (const v1::Query& query : request.queries()) num_blank += NumBlankTexts(query.candidates().inline_documents());
  if (num_blank == 0) return absl::OkStatus();
  uint32_t most_dim = dim > 0 ? static_cast<uint32_t>(dim) : kMaxDim;
  if (request.queries_size() > 0 && request.queries(0).has_tokens()) {
    most_dim = std::max(most_dim, std::min<uint32_t>(request.queries(0).tokens().dim(), kMaxDim));
  }
  const auto num_bytes = static_cast<uint64_t>(num_blank) * most_dim * sizeof(float);
  if (num_bytes <= kMaxBlankBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the request has ", num_blank,
                                                 " blank documents, whose vectors of dimension ", most_dim, " take ",
                                                 num_bytes, " bytes; must be at most ", kMaxBlankBytes));
}

// Returns the dimension for the vector of a blank document: that of the encoder's vectors or, if the encoder got no
// text, that of the first query.
int32_t DimOfBlanks(const std::vector<EncodedText>& encoded, const v1::RerankRequest& request) {
  if (!encoded.empty()) return encoded.front().dim;
  if (request.queries().empty()) return kMinDim;
  // Clamp the dimension, because the client's own number is checked only later.
  const uint32_t dim = request.queries(0).tokens().dim();
  return static_cast<int32_t>(std::clamp<uint32_t>(dim, kMinDim, kMaxDim));
}

// Puts the encoder's vectors into the queries that are texts.
void PlaceQueries(std::vector<EncodedText>& encoded, v1::RerankRequest& request, TextFacts& facts) {
  facts.queries.resize(static_cast<size_t>(request.queries_size()));
  size_t next = 0;
  for (int i = 0; i < request.queries_size(); ++i) {
    v1::Query& query = *request.mutable_queries(i);
    if (!query.has_text()) continue;
    EncodedText text = std::move(encoded[next++]);
    query.clear_text();
    SetTokens(text, *query.mutable_tokens());
    facts.num_tokens += static_cast<uint64_t>(text.num_tokens);
    facts.queries[static_cast<size_t>(i)] = {std::move(text.pieces), text.is_truncated, nullptr};
  }
}

// Puts the encoder's vectors into the inline documents that are texts. Call it after PlaceQueries. `encoded` has one
// entry for each text that is not blank.
void PlaceDocuments(const std::vector<bool>& is_blank, std::vector<EncodedText>& encoded, v1::RerankRequest& request,
                    TextFacts& facts) {
  const int32_t blank_dim = DimOfBlanks(encoded, request);
  size_t next = 0;
  size_t next_encoded = 0;
  std::vector<std::shared_ptr<const std::vector<bool>>> truncated;  // one for each of InlineLists
  for (v1::InlineDocuments* list : InlineLists(request)) {
    std::vector<bool> of_list(static_cast<size_t>(list->texts_size()));
    bool any = false;
    for (size_t i = 0; i < of_list.size(); ++i) {
      if (is_blank[next++]) {
        const std::vector<float> zeros(static_cast<size_t>(blank_dim));
        SetTokens({.num_tokens = 1, .dim = blank_dim, .values = zeros}, *list->add_documents());
        continue;
      }
      const EncodedText text = std::move(encoded[next_encoded++]);
      SetTokens(text, *list->add_documents());
      facts.num_tokens += static_cast<uint64_t>(text.num_tokens);
      of_list[i] = text.is_truncated;
      any |= text.is_truncated;
    }
    list->clear_texts();
    truncated.push_back(any ? std::make_shared<const std::vector<bool>>(std::move(of_list)) : nullptr);
  }
  auto next_list = truncated.begin();
  const auto shared = request.candidates().has_inline_documents() ? *next_list++ : nullptr;
  for (int i = 0; i < request.queries_size(); ++i) {
    const v1::Query& query = request.queries(i);
    auto& documents = facts.queries[static_cast<size_t>(i)].truncated_documents;
    if (query.candidates().has_inline_documents()) {
      documents = *next_list++;
    } else if (!query.has_candidates()) {
      documents = shared;
    }
  }
}

}  // namespace

bool HasTexts(const v1::RerankRequest& request) {
  if (!request.candidates().inline_documents().texts().empty()) return true;
  for (const v1::Query& query : request.queries()) {
    if (query.has_text() || !query.candidates().inline_documents().texts().empty()) return true;
  }
  return false;
}

absl::Status CheckTexts(const v1::RerankRequest& request, int32_t dim, const RequestLimits& limits) {
  absl::Status status = CheckQueryTexts(request);
  if (status.ok()) status = CheckDocumentTexts(request.candidates().inline_documents(), "candidates", limits);
  for (int i = 0; i < request.queries_size() && status.ok(); ++i) {
    status = CheckDocumentTexts(request.queries(i).candidates().inline_documents(),
                                absl::StrCat("queries[", i, "].candidates"), limits);
  }
  return status.ok() ? CheckBlankTexts(request, dim) : status;
}

Texts TakeTexts(v1::RerankRequest& request, std::vector<bool>& is_blank) {
  Texts texts;
  texts.held_bytes = request.ByteSizeLong();
  texts.query_field = request.queries_size() == 1 ? "queries[0].text" : "queries.text";
  texts.document_field = absl::StrCat(request.candidates().has_inline_documents() ? "candidates." : "", kDocumentTexts);
  for (v1::Query& query : *request.mutable_queries()) {
    if (query.has_text()) texts.queries.push_back(std::move(*query.mutable_text()));
  }
  for (v1::InlineDocuments* list : InlineLists(request)) {
    for (std::string& text : *list->mutable_texts()) {
      is_blank.push_back(IsBlank(text));
      if (!is_blank.back()) texts.documents.push_back(std::move(text));
    }
  }
  return texts;
}

TextFacts PlaceTokens(EncodedTexts encoded, const std::vector<bool>& is_blank, v1::RerankRequest& request) {
  TextFacts facts;
  PlaceQueries(encoded.queries, request, facts);
  PlaceDocuments(is_blank, encoded.documents, request, facts);
  return facts;
}

void SetTokens(const EncodedText& encoded, v1::TokenMatrix& matrix) {
  matrix.set_dtype(v1::DATA_TYPE_F32);
  matrix.set_num_tokens(static_cast<uint32_t>(encoded.num_tokens));
  matrix.set_dim(static_cast<uint32_t>(encoded.dim));
  matrix.set_data(encoded.values.data(), encoded.values.size() * sizeof(float));
}

}  // namespace maxsim::service
