// Runs scoring calls on a CUDA device. An executor owns a CUDA stream and the workspace of one call at a time, both
// allocated when it is made.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/cuda/call/call_input.h"
#include "kernels/cuda/call/call_wait.h"
#include "kernels/cuda/call/completion.h"
#include "kernels/cuda/call/copy_input.h"
#include "kernels/cuda/call/quantize_launch.h"
#include "kernels/cuda/cuda_documents.h"
#include "kernels/cuda/host_documents/document_transfer.h"
#include "kernels/cuda/host_documents/host_documents.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/event.h"
#include "kernels/cuda/runtime/repeated_launch.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/uploader.h"
#include "kernels/cuda/score/hopper_common/document_maps.h"
#include "kernels/cuda/score/hopper_common/params.h"
#include "kernels/cuda/score/hopper_stream/params.h"
#include "kernels/cuda/score/portable/params.h"
#include "kernels/cuda/score/score_params.h"
#include "kernels/maxsim.h"
#include "kernels/plan/score.h"
#include "kernels/plan/shares.h"

namespace maxsim::cuda {

// Seconds of the last call on the device, by stage.
struct CudaTimings {
  double copy_in = 0;  // of calls with copies, with the quantising of queries; without copies that is a part of `score`
  double score = 0;    // scoring, with the adding of partial sums
  double select = 0;   // top-k
  double copy_out = 0;
};

// When candidate lists are joined: where that saves time, or wherever it saves reads.
enum class Joins : uint8_t { kNever, kWorthwhile, kWheneverReadsAreSaved };

// When the wide and deep kernels take candidates in an order of their own: where that saves time, or wherever that is
// possible.
enum class Ordering : uint8_t { kNever, kWorthwhile, kAlways };

class CudaExecutor final : public Executor {
 public:
  // `device` must outlive the executor. RESOURCE_EXHAUSTED when the workspace does not fit.
  static absl::StatusOr<std::unique_ptr<CudaExecutor>> Create(Device* device, const ExecutorOptions& options);

  // Waits for the device to be done with the workspace before it goes.
  ~CudaExecutor() override;

  absl::Status TopK(const Documents& documents, absl::Span<const Query> queries,
                    absl::Span<std::vector<Scored>> results, CallTimings* timings) override;
  absl::Status Align(const Documents& documents, const Query& query, absl::Span<const uint32_t> ordinals,
                     absl::Span<TokenMatch> matches) override;
  absl::StatusOr<const Documents*> Stage(const DocumentsView& documents) override;

  // Return the timings and the plan of the last TopK call, for benchmarks and logs.
  const CudaTimings& last_timings() const { return timings_; }
  const ScorePlan& last_plan() const { return input_.score_plan(); }

  // Sets the tilings that later calls may choose from (DeviceLimits::tiles), for tests and measurements. kRows32 is
  // what is left when none of them can run.
  void AllowTiles(uint32_t tiles) { tiles_ = tiles; }
  // Sets when later calls join candidate lists (kernels/plan/list_join.h), for tests and measurements.
  void SetJoins(Joins joins) { joins_ = joins; }
  // Sets when later calls order candidates (PlanOrder), for tests and measurements.
  void SetOrdering(Ordering ordering) { ordering_ = ordering; }
  // Returns whether the last slice of the last call ordered its candidates.
  bool last_ordered() const { return ordered_; }
  // Returns how many joins the last slice of the last call had.
  int last_joins() const { return input_.num_unions(); }
  // Sets how later calls share out the stream kernels' work, for tests and measurements.
  void TuneStream(const StreamTuning& tuning) { stream_tuning_ = tuning; }
  // Returns the thread blocks of a team in the last pass of the last call (StreamShares): 1 where it had no teams, 0
  // where no stream kernel ran.
  int32_t last_team_blocks() const { return team_blocks_; }

  // Starts what the last call started on the device once more, if that was a call without copies, and does not wait for
  // it: for measurements. A CUDA stream that is being captured takes it down as a graph. FAILED_PRECONDITION after
  // other calls.
  absl::Status StartAgain(const Documents& documents);

  // Returns the CUDA stream that calls run on, for measurements. What is started there before a call runs before it.
  cudaStream_t stream() const { return stream_.get(); }

  // Sets whether later calls time their stages by events between them, for measurements. Events keep the stages apart:
  // the input, with the rounding of queries to INT8, and then kernels alone until the results are copied. Without them
  // the kernels of small calls note the times.
  void SetStageEvents(bool on) { stage_events_ = on; }

  // Sets whether later calls of one short query over few candidates are single-launch calls
  // (kernels/cuda/call/single_launch_call.h) where the documents have such a kernel, for tests and measurements. At
  // first they are.
  void SetSingleLaunchCalls(bool on) { single_launch_calls_ = on; }
  // Sets SingleLaunchCall::patience of later calls, for tests.
  void SetSingleLaunchPatience(int32_t polls) { single_launch_patience_ = polls; }
  // Returns whether the last slice of the last call was a single-launch call.
  bool last_single_launch() const { return single_launch_; }
  // Returns whether the last slice of the last call was a single-launch call that replayed the graph of one like it.
  bool last_single_launch_was_graph() const { return single_launch_ && repeated_launch_.last_was_graph(); }

  // Sets how later small calls are waited for, for tests and measurements.
  void SetWaitMode(WaitMode mode) { call_wait_.SetMode(mode); }

  // Returns the device bytes that the workspace takes.
  size_t workspace_bytes() const;

 private:
  CudaExecutor(Device* device, const ExecutorOptions& options);

  absl::Status Allocate();
  // Documents that kernels can read, and the candidates among them that are to be scored.
  struct ScorePass {
    const CudaDocuments* memory = nullptr;  // the rows; offsets and scales are those below
    const int64_t* offsets = nullptr;       // device memory, by the numbers that candidates name documents by
    const float* scales = nullptr;          // the same; null but for I8
    int64_t first = 0;                      // candidates first .. first + count of every query
    int64_t count = 0;
    int64_t mean_tokens = 0;      // of a document
    int64_t longest_tokens = 0;   // 0: unknown
    int64_t spread_tokens = 0;    // SpreadTokens (kernels/plan/shares.h); 0: unknown
    int64_t document_tokens = 0;  // of every document, where all have as many and stand in order; else 0

    static ScorePass Over(const CudaDocuments& documents, int64_t num_candidates);
    static ScorePass Over(const DocumentBatch& block, int64_t first, int64_t count);
  };

  absl::Status CheckDevice(const Device* device) const;
  absl::Status CheckLimits(const Documents& documents, absl::Span<const Query> queries) const;
  absl::Status PlanSlice(const Documents& documents, absl::Span<const Query> queries, bool tensor_maps, bool join);
  void GiveResults(absl::Span<std::vector<Scored>> results) const;
  absl::Status RunSlice(const CudaDocuments& documents, absl::Span<const Query> queries,
                        absl::Span<std::vector<Scored>> results);
  absl::Status RunZeroCopy(const CudaDocuments& documents);
  absl::Status LaunchZeroCopy(const CudaDocuments& documents);
  // What a single-launch call launches (kernels/cuda/call/single_launch_call.h).
  struct SingleLaunch {
    QuantizeParams queries;  // of I8 documents, in a launch of its own before
    StreamParams scores;
  };
  bool IsSingleLaunch() const;
  SingleLaunch SingleLaunchOf(const CudaDocuments& documents) const;
  absl::Status LaunchSingle(const CudaDocuments& documents, const SingleLaunch& launch);
  absl::Status StartSingleLaunch(const CudaDocuments& documents);
  absl::Status RunCopied(const CudaDocuments& documents);
  absl::Status WriteInput();
  // `offsets`: as in InputCopy.
  InputCopy InputByKernel(const int64_t* offsets) const;
  absl::Status CopyInput(const int64_t* offsets);
  double EstimatedWork(const CudaDocuments& documents) const;
  // Does nothing unless the documents are I8.
  absl::Status QuantizeQueries(const CudaDocuments& documents);
  // Returns the parameters for an input that begins at `input`, in device or pinned memory. `times` is as in
  // QuantizeParams.
  QuantizeParams QuantizeParamsOf(const uint8_t* input, const CudaDocuments& documents, CallTimes* times) const;
  absl::Status JoinLists();
  // Orders the pass's candidates; returns no order where they are to be taken as they come.
  absl::StatusOr<CandidateOrder> OrderCandidates(const ScorePass& pass);
  absl::Status LaunchScores(const ScorePass& pass);
  // These fill in the parameters for the pass's candidates first .. first + count, which are scored at once.
  void FillScores(const ScorePass& pass, int64_t first, int64_t count, ScoreParams& params) const;
  void FillHopper(const ScorePass& pass, int64_t first, int64_t count, HopperParams& params) const;
  void FillWorkQueue(const ScorePass& pass, int64_t first, int64_t count, WorkQueueParams& params) const;
  StreamParams StreamParamsOf(const ScorePass& pass, int64_t first, int64_t count) const;
  // Launches the plan's kernel over them. `queries` describes the query rows for a deep kernel.
  cudaError_t LaunchKernelOf(const ScorePass& pass, int64_t first, int64_t count, const CandidateOrder& order,
                             const sm90::QueryMap& queries);
  // `times`: where those of the selection are noted; may be null.
  absl::Status LaunchSelection(DeviceScored* results, CallTimes* times);
  absl::Status SelectAndCopyResults();
  absl::Status AddTimings(const Event& copied_in);
  size_t AlignRoom(const Query& query) const;
  absl::Status AlignPart(const ScorePass& pass, const Query& query, absl::Span<const uint32_t> ordinals,
                         absl::Span<TokenMatch> matches);
  absl::Status UploadStaged(const DocumentsView& view, const CudaDocuments::Shape& shape);
  // Fills in what does not depend on the candidates that are scored at once.
  void FillPass(const ScorePass& pass, ScoreParams& params) const;

  // Calls over documents that are not in the device's memory (host_document_calls.cc).
  absl::Status TopKOfHostDocuments(const HostDocuments& documents, absl::Span<const Query> queries,
                                   absl::Span<std::vector<Scored>> results);
  absl::Status RunScan(const HostDocuments& documents, absl::Span<const Query> queries,
                       absl::Span<std::vector<Scored>> results);
  absl::StatusOr<size_t> RunLists(const HostDocuments& documents, absl::Span<const Query> queries,
                                  absl::Span<std::vector<Scored>> results);
  absl::Status AlignHostDocuments(const HostDocuments& documents, const Query& query,
                                  absl::Span<const uint32_t> ordinals, absl::Span<TokenMatch> matches);

  // Returns a part of the call's input in device memory.
  template <class T>
  T* Input(size_t offset) const {
    return reinterpret_cast<T*>(device_input_.as<uint8_t>() + offset);
  }

  Device* const device_;
  const ExecutorOptions options_;
  const SliceCapacity capacity_;
  uint32_t tiles_ = ~uint32_t{0};
  StreamTuning stream_tuning_;
  Joins joins_ = Joins::kWorthwhile;
  Ordering ordering_ = Ordering::kWorthwhile;
  bool stage_events_ = false;
  bool single_launch_calls_ = true;
  int32_t single_launch_patience_ = kSingleLaunchPatience;
  CallInput input_;
  CudaTimings timings_;
  CallWait call_wait_;
  RepeatedLaunch repeated_launch_;
  bool zero_copy_ = false;      // the last slice was a small call
  bool single_launch_ = false;  // it was a single-launch call
  bool ordered_ = false;        // its candidates were ordered
  int32_t team_blocks_ = 0;

  Stream stream_;
  Event start_, copied_in_, scored_, selected_, done_;

  PinnedBuffer pinned_input_;
  DeviceBuffer device_input_;
  DeviceBuffer scores_;                // [candidates]
  DeviceBuffer partials_;              // sums of query tiles, scores of unions; in Align, the matches
  DeviceBuffer join_words_;            // of joined lists
  DeviceBuffer placed_, order_units_;  // a CandidateOrder's
  DeviceBuffer team_words_;            // StreamTeams
  DeviceBuffer claims_;                // zero between launches
  DeviceBuffer keys_;                  // candidates of large selections
  DeviceBuffer select_workspaces_;     // as SelectWorkspace says between launches
  DeviceBuffer single_launch_state_;   // a SingleLaunchState
  PinnedBuffer times_;                 // a CallTimes
  DeviceBuffer device_results_;        // [results]
  PinnedBuffer pinned_results_;

  Uploader uploader_;
  DeviceBuffer staged_tokens_;
  DeviceBuffer staged_offsets_;
  DeviceBuffer staged_scales_;
  std::optional<CudaDocuments> staged_;

  std::unique_ptr<DocumentTransfer> documents_in_;  // null where the executor has no document batches
  ListPasses list_passes_;
  std::vector<Query> listed_;  // of RunLists
};

}  // namespace maxsim::cuda
