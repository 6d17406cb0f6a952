// MaxSim scoring: the problem description and the interface every backend implements.
//
//   score(q, d) = sum_i w_i * max_j <q_i, d_j>
//
// over the query's tokens i and the document's tokens j, accumulated in FP32. This interface does not depend on gRPC,
// files or collections; the caller passes plain structs that point to its own memory.
//
// Contract of every backend:
//  - A score depends only on the query's tokens and weights and on the document's tokens. It does not depend on the
//    other candidates, the other queries of the call, their order, the thread count or the run. Repeating a call gives
//    the same bits.
//  - For quantised documents, the backend and the reference both score the quantised query (kernels/quantize.h).
//  - For residual codes d_j is the decoded vector (kernels/residual_codes.h).
//  - |score - FP64 reference| <= 1e-5 * sum_i |w_i| * max_j sum_k |q_ik * d_jk| (kernels/reference.h computes both).
//  - Results are in rank order (kernels/rank_order.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/limits.h"
#include "kernels/residual_codes.h"
#include "kernels/scalar_type.h"

namespace maxsim {

struct CodeShape;  // kernels/codes/codes.h
struct CodesView;
class LoadedCodes;  // kernels/codes/scan_executor.h
class ScanExecutor;
struct AppendableCodesShape;  // kernels/codes/appendable_codes.h
class AppendableCodes;

// The owner of memory that something outside the process can change while documents are scored in it, such as a mapped
// file.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // Copies `num_bytes` bytes of this source's memory, which begin at `from`, to `to`. This default copies from memory.
  // A mapped file may override it with a faster way to read bytes that are not in memory yet. Returns DATA_LOSS if the
  // bytes cannot be read. Thread-safe.
  virtual absl::Status Read(const void* from, size_t num_bytes, void* to) const {
    std::memcpy(to, from, num_bytes);
    return absl::OkStatus();
  }
  // Returns OK if all bytes that were read from the memory so far are unchanged since the documents were loaded.
  // Otherwise returns DATA_LOSS and says what changed. Thread-safe and cheap: callers check after each scoring call,
  // before they use its results.
  virtual absl::Status Check() const = 0;
};

// A ragged set of documents in host memory: document n owns rows offsets[n] .. offsets[n + 1] - 1 of `tokens`.
struct DocumentsView {
  ScalarType type = ScalarType::kF16;
  int32_t dim = 0;            // columns, kMinDim .. kMaxDim
  int64_t num_documents = 0;  // 0 .. kMaxShardDocuments
  // [offsets[num_documents]] rows of RowBytes(type, dim) bytes, packed, aligned to at least 2 bytes. Values must be
  // finite and at most kMaxAbsValue in magnitude, int8 elements within +-kMaxInt8, and centroid numbers below
  // codebook.num_centroids. Backends do not check values.
  const void* tokens = nullptr;
  const int64_t* offsets = nullptr;      // [num_documents + 1], offsets[0] == 0, strictly increasing
  const float* scales = nullptr;         // kI8: [num_documents], finite, 0 or more; other types: null
  uint64_t rotation_seed = 0;            // kI8: seed of the rotation that came before quantising the rows
  ResidualCodebook codebook = {};        // residual codes: the codebook that decodes them; other types: none
  const MemorySource* source = nullptr;  // detects changes of `tokens`; null if they never change
  int64_t document_tokens = 0;  // tokens of every document, if all are known to have equally many; 0 in other cases

  int64_t num_tokens() const { return num_documents == 0 ? 0 : offsets[num_documents]; }
};

// Returns INVALID_ARGUMENT if the shape of a view is wrong: dimension, type, or offsets that do not start at 0 or do
// not grow by 1 .. kMaxDocumentTokens. Does not check values.
absl::Status ValidateDocuments(const DocumentsView& documents);

// Returns the type in which callers pass queries against documents of type `documents`. It is F32 for quantised
// documents, because the backend rotates and quantises the queries itself (kernels/quantize.h), F16 for residual codes,
// and the documents' own type for all others.
constexpr ScalarType QueryType(ScalarType documents) {
  if (IsResidual(documents)) return ScalarType::kF16;
  return documents == ScalarType::kI8 ? ScalarType::kF32 : documents;
}

// Returns the type to which inline documents of a request are converted, given the collection's type `documents`: F16
// for residual codes, else the collection's type. QueryType of the result equals QueryType(documents).
constexpr ScalarType StagedType(ScalarType documents) { return IsResidual(documents) ? ScalarType::kF16 : documents; }

// One query against one set of documents. All pointers are to host memory, which is borrowed for the length of the
// call.
struct Query {
  const void* tokens = nullptr;        // [num_tokens, dim] in QueryType(documents' type), row-major, aligned to 2 bytes
  const float* weights = nullptr;      // [num_tokens]; null means every weight is 1
  int32_t num_tokens = 0;              // 1 .. kMaxQueryTokens
  const uint32_t* ordinals = nullptr;  // [num_candidates], each < num_documents, repeats allowed; null means all
  int64_t num_candidates = 0;          // ignored when ordinals is null
  // [ceil(num_documents / 64)]: `ordinals` once more, as a bitmap. Bit o of the whole is 1 if document o is a
  // candidate; `ordinals` is then ascending, without repeats. null means that there is no bitmap. A backend may copy
  // the bitmap to the device instead of the list (kernels/candidate_mask.h); the result is the same.
  const uint64_t* mask = nullptr;
  int32_t top_k = 0;  // 1 .. kMaxTopK; more than there are candidates returns all of them
};

// A candidate of a query with its score.
struct Scored {
  float score = 0;
  uint32_t position = 0;  // index into Query::ordinals, or the document's ordinal when that is null

  friend bool operator==(const Scored&, const Scored&) = default;
};

// Which document token a query token matched, and how well.
struct TokenMatch {
  int32_t document_token = 0;  // index inside the document; of several equal tokens, the smallest index
  float similarity = 0;        // <q_i, d_j>, before the weight
};

// The times of the stages of one call, and the bytes that the call copied to the device. If a backend lacks a stage,
// its time stays zero.
struct CallTimings {
  double copy_seconds = 0;    // host to device and back
  double kernel_seconds = 0;  // scoring and selection
  // These members cover only documents of Tier::kHost and kDisk.
  int64_t streamed_bytes = 0;  // bytes of rows that the call copied to the device
  int64_t cache_hits = 0;      // listed documents that the device's cache held
  int64_t cache_misses = 0;    // listed documents that it did not hold

  CallTimings& operator+=(const CallTimings& other) {
    copy_seconds += other.copy_seconds;
    kernel_seconds += other.kernel_seconds;
    streamed_bytes += other.streamed_bytes;
    cache_hits += other.cache_hits;
    cache_misses += other.cache_misses;
    return *this;
  }
};

// Where a backend keeps documents that it scores again and again. The tier does not change the bits of a score.
enum class Tier : uint8_t {
  kDevice,  // in the device's own memory
  kHost,    // in host memory that the device reads at the link's full rate (pinned, for a GPU); each call copies the
            // documents that it scores
  kDisk,    // where the view's memory lies, say in a mapped file; each call reads the documents that it scores
};

// Memory that loaded documents take in addition to the memory of their view.
struct MemoryNeed {
  size_t device_bytes = 0;
  size_t host_bytes = 0;

  friend bool operator==(const MemoryNeed&, const MemoryNeed&) = default;
};

// Documents that a backend can score. An object is immutable and safe to use from any thread, and must not outlive
// the Backend that made it.
class Documents {
 public:
  virtual ~Documents() = default;
  virtual ScalarType type() const = 0;
  virtual int32_t dim() const = 0;
  virtual int64_t num_documents() const = 0;
  virtual int64_t num_tokens() const = 0;
  // Returns the memory that this object owns; borrowed memory of a view does not count.
  virtual MemoryNeed memory() const = 0;
};

// The format and the capacity of AppendableDocuments, fixed when they are created.
struct AppendableShape {
  ScalarType type = ScalarType::kF16;
  int32_t dim = 0;
  int64_t max_documents = 0;
  int64_t max_tokens = 0;
  uint64_t rotation_seed = 0;  // kI8
};

// Documents in a backend's memory to which more documents can be appended. Documents never move or change once they
// are appended. One thread at a time may append; during an append, other threads may call the other functions. The
// object must not outlive the Backend that made it.
class AppendableDocuments {
 public:
  virtual ~AppendableDocuments() = default;
  // Appends all documents of the view, which must have the same type, dimension and rotation as this object. After OK
  // the documents are in the backend's memory, and the caller may free the view. After an error nothing is appended.
  // Returns INVALID_ARGUMENT for another type, dimension or rotation; RESOURCE_EXHAUSTED, with the numbers, beyond
  // max_documents or max_tokens; UNAVAILABLE when the device is lost.
  virtual absl::Status Append(const DocumentsView& documents) = 0;
  // Returns the documents appended so far, numbered in the order in which they were appended. Any Executor of the
  // backend can score them. The result is immutable and keeps the memory alive.
  virtual std::shared_ptr<const Documents> Snapshot() const = 0;
  // Copies the rows of appended tokens `first_token` .. `first_token` + `num_tokens` - 1 to `rows`, [num_tokens, dim]
  // packed. Returns UNAVAILABLE when the device is lost.
  virtual absl::Status ReadRows(int64_t first_token, int64_t num_tokens, void* rows) const = 0;
};

// The largest sizes that an Executor must accept. An executor may allocate memory for all of them when it is created. A
// call that exceeds one of them fails with RESOURCE_EXHAUSTED, which names the size and the limit. A backend that does
// not allocate memory in advance may accept larger calls.
struct ExecutorOptions {
  int32_t max_queries = 64;                         // queries of one call
  int64_t max_query_tokens = 64 * 1024;             // tokens of all queries of one call
  int64_t max_candidates = int64_t{1} << 22;        // candidates of all queries of one call, listed or all
  int32_t max_dim = 1024;                           // columns of the widest documents
  int64_t max_staged_bytes = int64_t{64} << 20;     // token bytes of documents passed to Stage
  int64_t max_staged_documents = int64_t{1} << 16;  // documents passed to Stage
};

// Runs scoring calls one after another with its own workspace (on a GPU, with its own CUDA stream). Not thread-safe:
// use one executor per thread; a backend can have several. Must not outlive its Backend.
class Executor {
 public:
  virtual ~Executor() = default;

  // Scores every query against its candidates among `documents` and returns the best top_k of each, in rank order.
  // `results` has one element per query and is overwritten; it keeps its capacity from call to call. `timings` may be
  // null. Returns INVALID_ARGUMENT for a query outside the limits or an ordinal out of range. Returns UNAVAILABLE when
  // the device is lost, and again for every later call. Returns DATA_LOSS when the executor reads documents from the
  // view's memory and that memory has changed (DocumentsView::source).
  virtual absl::Status TopK(const Documents& documents, absl::Span<const Query> queries,
                            absl::Span<std::vector<Scored>> results, CallTimings* timings) = 0;

  // Finds, for each of `ordinals` (documents, in any order), the document token that each query token matched.
  // `matches` is [ordinals.size(), query.num_tokens] row-major. The query's own candidates, top_k and weights are
  // ignored.
  virtual absl::Status Align(const Documents& documents, const Query& query, absl::Span<const uint32_t> ordinals,
                             absl::Span<TokenMatch> matches) = 0;

  // Makes the inline documents of a request scorable by this executor. The documents must not be residual codes. The
  // result belongs to the executor and is valid until its next Stage call. The caller must keep the view's memory until
  // then.
  virtual absl::StatusOr<const Documents*> Stage(const DocumentsView& documents) = 0;
};

// The device that a backend runs on.
struct BackendInfo {
  std::string name;     // "cpu" or "cuda"
  std::string device;   // as the vendor names it
  std::string isa;      // instruction set or compute capability in use: "avx2", "sm_90"
  int parallelism = 0;  // worker threads, or multiprocessors
  // The largest number of token pairs (query tokens x candidate tokens) that a caller should put into one call. A call
  // of that size takes a fraction of a second. Larger ones would block others for too long, because a running call
  // cannot be interrupted.
  uint64_t max_call_work = uint64_t{1} << 36;
  size_t memory_bytes = 0;  // the whole memory that documents may be loaded into
  std::string link;         // how documents are copied to the device, for logs; "" if the backend scores in host memory
};

// A device that scores. Thread-safe.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const BackendInfo& info() const = 0;

  // Returns the bytes that are free for Load at this moment: of the device's memory, or of the host's for a backend
  // that scores in host memory.
  virtual absl::StatusOr<size_t> FreeBytes() const = 0;

  // Returns the memory that Load would take for documents of this shape.
  virtual MemoryNeed BytesNeeded(ScalarType type, int32_t dim, int64_t num_documents, int64_t num_tokens,
                                 Tier tier) const = 0;

  // Returns the memory that Load takes for the codebook of residual codes, in addition to BytesNeeded, in any tier.
  virtual MemoryNeed CodebookBytesNeeded(ScalarType /*type*/, int32_t /*dim*/, int64_t /*num_centroids*/) const {
    return {};
  }

  // Makes documents scorable. `keep_alive` owns the view's memory. If calls read the documents from the view's memory
  // (in every tier of a backend that scores in host memory, and in kDisk of any backend), the result keeps
  // `keep_alive`. Otherwise Load copies the documents and then drops `keep_alive`. Returns RESOURCE_EXHAUSTED, with the
  // numbers, when there is too little memory.
  virtual absl::StatusOr<std::unique_ptr<Documents>> Load(const DocumentsView& documents, Tier tier,
                                                          std::shared_ptr<const void> keep_alive) = 0;

  // Reserves memory for documents that will be appended, which must not be residual codes. The memory is the device's,
  // as much as BytesNeeded returns for max_documents and max_tokens in Tier::kDevice; on the CPU backend it is host
  // memory for arrays of that size. Returns RESOURCE_EXHAUSTED, with the numbers, when there is too little memory.
  virtual absl::StatusOr<std::shared_ptr<AppendableDocuments>> CreateAppendable(const AppendableShape& shape) = 0;

  // Makes an executor with room for `options`. Returns RESOURCE_EXHAUSTED when there is too little memory.
  virtual absl::StatusOr<std::unique_ptr<Executor>> CreateExecutor(const ExecutorOptions& options) = 0;

  // Returns the memory that LoadCodes would take for codes of this shape with 1, 2 or 4 planes (bits per value).
  virtual MemoryNeed CodeBytesNeeded(const CodeShape& shape, int planes, int64_t num_documents,
                                     int64_t num_tokens) const;

  // Returns the most device memory that the workspace of one ScanExecutor takes while it scans loaded codes of this
  // shape, with at most `num_documents` documents in each object. This holds for calls that keep to kMaxScanQueries and
  // to the bounds of a server's calls (kernels/codes/scan.h), if all queries of a call have the same candidates in each
  // object: one list, one mask or all documents. A backend that scans in host memory returns 0.
  virtual size_t ScanBytesNeeded(const CodeShape& shape, int64_t num_documents) const;

  // Makes the first `planes` planes (bits per value; 1, 2 or 4) of codes scannable. `keep_alive` owns the view's
  // memory. A backend that scans in host memory scans the codes in the view's memory, and its result keeps
  // `keep_alive`; any other backend copies the codes and then drops `keep_alive`. Returns INVALID_ARGUMENT if the codes
  // have fewer planes or are damaged; RESOURCE_EXHAUSTED, with the numbers, when there is too little memory;
  // UNIMPLEMENTED if the backend cannot scan codes.
  virtual absl::StatusOr<std::unique_ptr<LoadedCodes>> LoadCodes(const CodesView& codes, int planes,
                                                                 std::shared_ptr<const void> keep_alive);

  // Reserves memory for codes that will be appended, on the device (on the CPU backend, the host): as many bytes as
  // CodeArrayBytes returns for max_documents and max_tokens. Returns INVALID_ARGUMENT, naming what is wrong, for an
  // invalid shape, and otherwise the errors of LoadCodes.
  virtual absl::StatusOr<std::shared_ptr<AppendableCodes>> CreateAppendableCodes(const AppendableCodesShape& shape);

  // Makes an executor of scans. Errors as LoadCodes.
  virtual absl::StatusOr<std::unique_ptr<ScanExecutor>> CreateScanExecutor();

  // Returns OK while the device works. Once the device has failed, every call returns UNAVAILABLE with the text of the
  // first error.
  virtual absl::Status Health() const = 0;
};

inline constexpr int kMaxCpuThreads = 1024;

struct CpuOptions {
  int num_threads = 0;  // workers shared by all executors, kMaxCpuThreads at most; 0: one per available core
  std::string isa;      // a name that CpuIsas() lists; "": the best that the machine has
};

// Returns the names of the instruction sets that this machine and this build can run, best first. The last one is
// always the portable one.
std::vector<std::string> CpuIsas();

// Creates the CPU backend. Returns INVALID_ARGUMENT, naming the value, for an instruction set that CpuIsas() does not
// list or a number of threads that is out of range.
absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(const CpuOptions& options);

struct CudaOptions {
  int device = 0;  // CUDA device ordinal
  // The size of a document batch in token bytes. Documents of Tier::kHost and kDisk are copied to the device in
  // batches, and every executor has two batches in device memory. A document that is larger than a batch cannot be
  // loaded into these tiers; with 0 no document can.
  int64_t stream_block_bytes = int64_t{128} << 20;
  // The size of each executor's cache in device memory. It holds documents of Tier::kHost and kDisk that candidate
  // lists name repeatedly. 0 means no cache.
  int64_t document_cache_bytes = 0;
  int reader_threads = 8;  // threads that read documents of kDisk, and that copy those of kHost at loading; at least 1
};

// Returns how many CUDA devices this machine has, whether they work or not. Their ordinals begin at 0. Returns
// UNIMPLEMENTED when built without CUDA, and UNAVAILABLE if there is no driver or no device.
absl::StatusOr<int> CountCudaDevices();

// Creates the CUDA backend. Returns UNIMPLEMENTED when built without CUDA, UNAVAILABLE when there is no such device or
// it cannot be used, and RESOURCE_EXHAUSTED when its memory is full; the message says what was missing.
absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(const CudaOptions& options);

// Returns true when this build contains the CUDA backend.
bool BuiltWithCuda();

}  // namespace maxsim
