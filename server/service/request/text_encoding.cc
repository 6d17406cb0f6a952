#include "server/service/request/text_encoding.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "client/status.h"
#include "collection/encoder_identity.h"
#include "kernels/limits.h"
#include "server/service/call/status.h"
#include "server/service/request/blank_text.h"
#include "server/service/request/info.h"

namespace maxsim::service {
namespace {

using encoder::EncodedText;
using encoder::TextKind;

// Threads that validate and convert requests whose texts have been encoded.
constexpr size_t kNumThreads = 2;
// The most bytes that the vectors of a request's blank documents may take.
constexpr uint64_t kMaxBlankBytes = uint64_t{64} << 20;

// Longer than any encoder may take; a sum of times does not overflow.
constexpr absl::Duration kMaxStopTime = absl::Hours(24);

// When those may come again whose requests found others waiting for the encoder.
constexpr absl::Duration kFullRetryDelay = absl::Seconds(1);

absl::Status Draining() { return absl::UnavailableError("the server is draining"); }

constexpr char kDocumentTexts[] = "inline_documents.texts";

// Returns the lists of inline documents of the request and of its queries, in this order.
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
      return InvalidField(absl::StrCat("queries[", i, "]"), "has tokens and text; one of them is accepted");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDocumentTexts(const v1::InlineDocuments& list, const std::string& path, const RequestLimits& limits) {
  if (list.texts().empty()) return absl::OkStatus();
  if (!list.documents().empty()) {
    return InvalidField(absl::StrCat(path, ".inline_documents"), "has documents and texts; one of them is accepted");
  }
  if (list.texts_size() > limits.max_inline_documents) {
    return InvalidField(absl::StrCat(path, ".", kDocumentTexts),
                        absl::StrCat("has ", list.texts_size(), " documents, and 1 to ", limits.max_inline_documents,
                                     " (limits.max_inline_documents) are accepted"),
                        {limits.max_inline_documents, list.texts_size(), "limits.max_inline_documents"});
  }
  return absl::OkStatus();
}

int64_t NumBlankTexts(const v1::InlineDocuments& list) {
  return std::count_if(list.texts().begin(), list.texts().end(), [](const std::string& text) { return IsBlank(text); });
}

// Each blank document becomes a vector of `dim` coordinates, or of the first query's where the encoder has no part in
// the request. Returns INVALID_ARGUMENT where those vectors would take more than kMaxBlankBytes.
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
                                                 num_bytes, " bytes, and at most ", kMaxBlankBytes, " are accepted"));
}

std::vector<std::string> TakeQueryTexts(v1::RerankRequest& request) {
  std::vector<std::string> texts;
  for (v1::Query& query : *request.mutable_queries()) {
    if (query.has_text()) texts.push_back(std::move(*query.mutable_text()));
  }
  return texts;
}

// Moves the texts of documents that are not blank out of the request. Appends to `is_blank` whether each text is.
std::vector<std::string> TakeDocumentTexts(v1::RerankRequest& request, std::vector<bool>& is_blank) {
  std::vector<std::string> texts;
  for (v1::InlineDocuments* list : InlineLists(request)) {
    for (std::string& text : *list->mutable_texts()) {
      is_blank.push_back(IsBlank(text));
      if (!is_blank.back()) texts.push_back(std::move(text));
    }
  }
  return texts;
}

// Returns the dimension of a blank document: that of the encoder or, if it encoded nothing, of the query.
int32_t DimOfBlanks(const std::vector<EncodedText>& encoded, const v1::RerankRequest& request) {
  if (!encoded.empty()) return encoded.front().dim;
  if (request.queries().empty()) return kMinDim;
  // Clamped, because the client's own number is checked only later.
  const uint32_t dim = request.queries(0).tokens().dim();
  return static_cast<int32_t>(std::clamp<uint32_t>(dim, kMinDim, kMaxDim));
}

void SetTokens(const EncodedText& encoded, v1::TokenMatrix& matrix) {
  matrix.set_dtype(v1::DATA_TYPE_F32);
  matrix.set_num_tokens(static_cast<uint32_t>(encoded.num_tokens));
  matrix.set_dim(static_cast<uint32_t>(encoded.dim));
  matrix.set_data(encoded.values.data(), encoded.values.size() * sizeof(float));
}

// Gives the queries and the documents that are texts their tokens; frees each matrix once it has been copied.
void PlaceQueries(std::vector<EncodedText>& encoded, EncodedRequest& result) {
  result.query_pieces.resize(static_cast<size_t>(result.request.queries_size()));
  result.truncated.queries.resize(static_cast<size_t>(result.request.queries_size()));
  size_t next = 0;
  for (int i = 0; i < result.request.queries_size(); ++i) {
    v1::Query& query = *result.request.mutable_queries(i);
    if (!query.has_text()) continue;
    EncodedText text = std::move(encoded[next++]);
    query.clear_text();
    SetTokens(text, *query.mutable_tokens());
    result.truncated.queries[static_cast<size_t>(i)].text = text.is_truncated;
    result.num_tokens += static_cast<uint64_t>(text.num_tokens);
    result.query_pieces[static_cast<size_t>(i)] = std::move(text.pieces);
  }
}

// Call PlaceQueries first. `is_blank` comes from TakeDocumentTexts; `encoded` has one entry for each text that is not
// blank.
void PlaceDocuments(const std::vector<bool>& is_blank, std::vector<EncodedText>& encoded, EncodedRequest& result) {
  const int32_t blank_dim = DimOfBlanks(encoded, result.request);
  size_t next = 0;
  size_t next_encoded = 0;
  std::vector<TruncatedTexts::Documents> truncated;  // one for each of InlineLists
  for (v1::InlineDocuments* list : InlineLists(result.request)) {
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
      result.num_tokens += static_cast<uint64_t>(text.num_tokens);
      of_list[i] = text.is_truncated;
      any |= text.is_truncated;
    }
    list->clear_texts();
    truncated.push_back(any ? std::make_shared<const std::vector<bool>>(std::move(of_list)) : nullptr);
  }
  auto next_list = truncated.begin();
  const v1::RerankRequest& request = result.request;
  if (request.candidates().has_inline_documents()) result.truncated.documents = *next_list++;
  for (int i = 0; i < request.queries_size(); ++i) {
    const v1::Query& query = request.queries(i);
    TruncatedTexts::Documents& documents = result.truncated.queries[static_cast<size_t>(i)].documents;
    if (query.candidates().has_inline_documents()) {
      documents = *next_list++;
    } else if (!query.has_candidates()) {
      documents = result.truncated.documents;
    }
  }
}

// Names the field of a text that the encoder refuses. Other errors are not about the request.
absl::Status InField(std::string_view field, const absl::Status& status) {
  if (!absl::IsInvalidArgument(status)) return status;
  return InvalidField(field, std::string(status.message()));
}

}  // namespace

// A request that waits for its texts. Whoever ends its last part finishes it.
struct TextEncoding::Pending {
  EncodedRequest result;
  Done done;
  absl::Time deadline;
  encoder::TraceHeaders trace;
  uint64_t num_bytes = 0;      // of the request as it came
  std::vector<bool> is_blank;  // [document texts]
  std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> num_parts = 1;  // calls to the encoder, and Encode itself
  absl::Status failure;            // of Encode itself
  // Written by the encoder's threads, each part its own; read once num_parts is 0.
  absl::StatusOr<std::vector<EncodedText>> queries = NoMemory();
  absl::StatusOr<std::vector<EncodedText>> documents = NoMemory();
};

// One call to the encoder. It ends when it goes away, also with a callback that was lost for want of memory.
struct TextEncoding::Part {
  Part(TextEncoding* owner, std::shared_ptr<Pending> waiting) : encoding(owner), pending(std::move(waiting)) {
    ++pending->num_parts;
  }
  ~Part() { encoding->End(pending); }

  TextEncoding* const encoding;
  const std::shared_ptr<Pending> pending;
};

bool HasTexts(const v1::RerankRequest& request) {
  if (!request.candidates().inline_documents().texts().empty()) return true;
  for (const v1::Query& query : request.queries()) {
    if (query.has_text() || !query.candidates().inline_documents().texts().empty()) return true;
  }
  return false;
}

void TextEncoding::SetEncoder(std::unique_ptr<encoder::Encoder> encoder, uint64_t max_held_bytes) {
  has_encoder_ = encoder != nullptr;
  max_held_bytes_ = max_held_bytes;
  if (has_encoder_) pool_ = std::make_unique<boost::asio::thread_pool>(kNumThreads);
  const MutexLock lock(&mutex_);
  encoder_ = std::move(encoder);
}

std::shared_ptr<encoder::Encoder> TextEncoding::CurrentEncoder() const {
  const MutexLock lock(&mutex_);
  return encoder_;
}

TextEncoding::TextEncoding() = default;

TextEncoding::~TextEncoding() { Stop(absl::InfinitePast()); }

std::unique_ptr<v1::EncoderInfo> TextEncoding::info() const {
  const std::shared_ptr<encoder::Encoder> encoder = CurrentEncoder();
  if (encoder == nullptr) return nullptr;
  return std::make_unique<v1::EncoderInfo>(ToProto(encoder->identity()));
}

absl::Status TextEncoding::Check(const v1::RerankRequest& request, const TextTarget* target,
                                 const RequestLimits& limits) const {
  if (!has_encoder_) {
    return absl::FailedPreconditionError(
        "the request has texts, and this server has no encoder (encoder.url): it takes token vectors");
  }
  const std::shared_ptr<encoder::Encoder> encoder = CurrentEncoder();
  if (encoder == nullptr) return Draining();
  if (absl::Status status = CheckQueryTexts(request); !status.ok()) return status;
  absl::Status status = CheckDocumentTexts(request.candidates().inline_documents(), "candidates", limits);
  for (int i = 0; i < request.queries_size() && status.ok(); ++i) {
    status = CheckDocumentTexts(request.queries(i).candidates().inline_documents(),
                                absl::StrCat("queries[", i, "].candidates"), limits);
  }
  if (!status.ok()) return status;
  const encoder::EncoderIdentity identity = encoder->identity();
  status = CheckBlankTexts(request, target != nullptr ? target->dim : identity.dim);
  if (!status.ok() || target == nullptr) return status;
  if (target->encoder.has_value()) {
    status = collection::CheckSameEncoder(*target->encoder, identity);
    if (!status.ok()) {
      return absl::FailedPreconditionError(absl::StrCat("collection ", target->name, ": ", status.message()));
    }
  }
  if (identity.dim != 0 && identity.dim != target->dim) {
    return absl::FailedPreconditionError(absl::StrCat("collection ", target->name, " has dimension ", target->dim,
                                                      ", and the vectors of the encoder ",
                                                      collection::DescribeEncoder(identity), " have ", identity.dim));
  }
  return absl::OkStatus();
}

absl::Status TextEncoding::Admit(uint64_t num_bytes) {
  const MutexLock lock(&mutex_);
  if (is_stopped_) return Draining();
  if (num_pending_ > 0 && held_bytes_ + num_bytes > max_held_bytes_) {
    absl::Status status = absl::ResourceExhaustedError(
        absl::StrCat("the requests that wait for the encoder hold ", held_bytes_, " bytes, this one has ", num_bytes,
                     ", and at most ", max_held_bytes_, " (batching.max_queue_bytes) are held"));
    client::SetRetryAfter(kFullRetryDelay, status);
    return status;
  }
  ++num_pending_;
  held_bytes_ += num_bytes;
  return absl::OkStatus();
}

void TextEncoding::Encode(v1::RerankRequest request, absl::Time deadline, encoder::TraceHeaders trace, Done done) {
  const uint64_t num_bytes = request.ByteSizeLong();
  std::shared_ptr<Pending> pending;
  absl::Status admitted = Guarded([&] {
    pending = std::make_shared<Pending>();
    return Admit(num_bytes);
  });
  if (!admitted.ok()) return done(std::move(admitted));
  pending->done = std::move(done);
  pending->deadline = deadline;
  pending->trace = std::move(trace);
  pending->num_bytes = num_bytes;
  pending->result.request = std::move(request);
  pending->failure = Guarded([&] {
    Begin(pending, TextKind::kQuery, TakeQueryTexts(pending->result.request));
    Begin(pending, TextKind::kDocument, TakeDocumentTexts(pending->result.request, pending->is_blank));
    return absl::OkStatus();
  });
  End(pending);
}

void TextEncoding::Begin(const std::shared_ptr<Pending>& pending, TextKind kind, std::vector<std::string> texts) {
  absl::StatusOr<std::vector<EncodedText>>& result = kind == TextKind::kQuery ? pending->queries : pending->documents;
  if (texts.empty()) {
    result = std::vector<EncodedText>();
    return;
  }
  const std::shared_ptr<encoder::Encoder> encoder = CurrentEncoder();
  if (encoder == nullptr) {
    result = Draining();
    return;
  }
  auto part = std::make_shared<Part>(this, pending);
  encoder->Encode({.kind = kind, .texts = std::move(texts), .deadline = pending->deadline, .trace = pending->trace},
                  [part = std::move(part), &result](absl::StatusOr<std::vector<EncodedText>> encoded) mutable {
                    result = std::move(encoded);
                    part.reset();
                  });
}

void TextEncoding::End(const std::shared_ptr<Pending>& pending) {
  if (--pending->num_parts > 0) return;
  if (std::this_thread::get_id() == pending->caller) return Finish(*pending);
  // The encoder's thread has the answers of other requests to read.
  const absl::Status status = Guarded([&] {
    boost::asio::post(*pool_, [this, pending] { Finish(*pending); });
    return absl::OkStatus();
  });
  if (status.ok()) return;
  pending->queries = status;
  Finish(*pending);
}

void TextEncoding::Finish(Pending& pending) {
  const absl::Cleanup leave = [this, num_bytes = pending.num_bytes] {
    const MutexLock lock(&mutex_);
    held_bytes_ -= num_bytes;
    if (--num_pending_ == 0) changed_.NotifyAll();
  };
  absl::Status status = pending.failure;
  const bool one_query = pending.result.request.queries_size() == 1;
  if (status.ok()) status = InField(one_query ? "queries[0].text" : "queries.text", pending.queries.status());
  const char* const of_request = pending.result.request.candidates().has_inline_documents() ? "candidates." : "";
  if (status.ok()) status = InField(absl::StrCat(of_request, kDocumentTexts), pending.documents.status());
  if (status.ok()) {
    status = Guarded([&] {
      PlaceQueries(*pending.queries, pending.result);
      PlaceDocuments(pending.is_blank, *pending.documents, pending.result);
      return absl::OkStatus();
    });
  }
  if (status.ok()) {
    pending.done(std::move(pending.result));
  } else {
    pending.done(std::move(status));
  }
}

void TextEncoding::Stop(absl::Time deadline) {
  std::shared_ptr<encoder::Encoder> encoder;
  {
    MutexLock lock(&mutex_);
    is_stopped_ = true;
    const absl::Duration longest = std::min(deadline - MonotonicNow(), kMaxStopTime);
    const auto end = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(longest);
    while (num_pending_ > 0 && changed_.WaitUntil(lock, end)) {
    }
    encoder = std::move(encoder_);
  }
  // Its destructor ends what is in progress, here or in the last call that still uses it.
  encoder.reset();
  if (pool_ != nullptr) pool_->join();
}

}  // namespace maxsim::service
