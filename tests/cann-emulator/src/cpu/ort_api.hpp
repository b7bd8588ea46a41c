// ONNX Runtime's C API, as far as it is used here, out of the library that is already in the process.
//
// The wheels carry no headers and the emulator must build with a compiler alone, so the functions used are declared
// here with their places in the table `OrtApi`, which ONNX Runtime only ever appends to. The declarations follow
// onnxruntime_c_api.h of release 1.24; `Api::load` asks for that version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

struct OrtEnv;
struct OrtStatus;
struct OrtSession;
struct OrtSessionOptions;
struct OrtRunOptions;
struct OrtValue;
struct OrtMemoryInfo;
struct OrtAllocator;
struct OrtTypeInfo;
struct OrtTensorTypeAndShapeInfo;
struct OrtCustomOpDomain;
struct OrtCustomOp;
struct OrtKernelInfo;
struct OrtKernelContext;
struct OrtShapeInferContext;
struct OrtIoBinding;
struct OrtCANNProviderOptions;
struct OrtApi;

namespace ort {

// place, name, result, parameters
#define ORT_FUNCTIONS(F)                                                                                                \
    F(0, CreateStatus, OrtStatus*, int code, const char* text)                                                          \
    F(1, GetErrorCode, int, const OrtStatus*)                                                                           \
    F(2, GetErrorMessage, const char*, const OrtStatus*)                                                                \
    F(3, CreateEnv, OrtStatus*, int severity, const char* name, OrtEnv**)                                               \
    F(8, CreateSessionFromArray, OrtStatus*, const OrtEnv*, const void* model, std::size_t size,                        \
      const OrtSessionOptions*, OrtSession**)                                                                           \
    F(9, Run, OrtStatus*, OrtSession*, const OrtRunOptions*, const char* const* input_names,                            \
      const OrtValue* const* inputs, std::size_t input_count, const char* const* output_names,                          \
      std::size_t output_count, OrtValue** outputs)                                                                     \
    F(7, CreateSession, OrtStatus*, const OrtEnv*, const char* file, const OrtSessionOptions*, OrtSession**)            \
    F(10, CreateSessionOptions, OrtStatus*, OrtSessionOptions**)                                                        \
    F(19, DisableCpuMemArena, OrtStatus*, OrtSessionOptions*)                                                           \
    F(23, SetSessionGraphOptimizationLevel, OrtStatus*, OrtSessionOptions*, int level)                                  \
    F(24, SetIntraOpNumThreads, OrtStatus*, OrtSessionOptions*, int count)                                              \
    F(26, CreateCustomOpDomain, OrtStatus*, const char* domain, OrtCustomOpDomain**)                                    \
    F(27, CustomOpDomain_Add, OrtStatus*, OrtCustomOpDomain*, const OrtCustomOp*)                                       \
    F(28, AddCustomOpDomain, OrtStatus*, OrtSessionOptions*, OrtCustomOpDomain*)                                        \
    F(30, SessionGetInputCount, OrtStatus*, const OrtSession*, std::size_t*)                                            \
    F(31, SessionGetOutputCount, OrtStatus*, const OrtSession*, std::size_t*)                                           \
    F(33, SessionGetInputTypeInfo, OrtStatus*, const OrtSession*, std::size_t index, OrtTypeInfo**)                     \
    F(34, SessionGetOutputTypeInfo, OrtStatus*, const OrtSession*, std::size_t index, OrtTypeInfo**)                    \
    F(36, SessionGetInputName, OrtStatus*, const OrtSession*, std::size_t index, OrtAllocator*, char**)                 \
    F(37, SessionGetOutputName, OrtStatus*, const OrtSession*, std::size_t index, OrtAllocator*, char**)                \
    F(48, CreateTensorAsOrtValue, OrtStatus*, OrtAllocator*, const std::int64_t* dims, std::size_t rank, int type,      \
      OrtValue**)                                                                                                       \
    F(49, CreateTensorWithDataAsOrtValue, OrtStatus*, const OrtMemoryInfo*, void* data, std::size_t size,               \
      const std::int64_t* dims, std::size_t rank, int type, OrtValue**)                                                 \
    F(51, GetTensorMutableData, OrtStatus*, OrtValue*, void**)                                                          \
    F(55, CastTypeInfoToTensorInfo, OrtStatus*, const OrtTypeInfo*, const OrtTensorTypeAndShapeInfo**)                  \
    F(58, SetTensorElementType, OrtStatus*, OrtTensorTypeAndShapeInfo*, int type)                                       \
    F(60, GetTensorElementType, OrtStatus*, const OrtTensorTypeAndShapeInfo*, int*)                                     \
    F(61, GetDimensionsCount, OrtStatus*, const OrtTensorTypeAndShapeInfo*, std::size_t*)                               \
    F(62, GetDimensions, OrtStatus*, const OrtTensorTypeAndShapeInfo*, std::int64_t* dims, std::size_t rank)            \
    F(65, GetTensorTypeAndShape, OrtStatus*, const OrtValue*, OrtTensorTypeAndShapeInfo**)                              \
    F(69, CreateCpuMemoryInfo, OrtStatus*, int allocator_type, int memory_type, OrtMemoryInfo**)                        \
    F(76, AllocatorFree, OrtStatus*, OrtAllocator*, void*)                                                              \
    F(78, GetAllocatorWithDefaultOptions, OrtStatus*, OrtAllocator**)                                                   \
    F(85, KernelInfoGetAttribute_float, OrtStatus*, const OrtKernelInfo*, const char* name, float*)                     \
    F(86, KernelInfoGetAttribute_int64, OrtStatus*, const OrtKernelInfo*, const char* name, std::int64_t*)              \
    F(87, KernelInfoGetAttribute_string, OrtStatus*, const OrtKernelInfo*, const char* name, char*, std::size_t*)       \
    F(90, KernelContext_GetInput, OrtStatus*, const OrtKernelContext*, std::size_t index, const OrtValue**)             \
    F(91, KernelContext_GetOutput, OrtStatus*, OrtKernelContext*, std::size_t index, const std::int64_t* dims,          \
      std::size_t rank, OrtValue**)                                                                                     \
    F(92, ReleaseEnv, void, OrtEnv*)                                                                                    \
    F(93, ReleaseStatus, void, OrtStatus*)                                                                              \
    F(94, ReleaseMemoryInfo, void, OrtMemoryInfo*)                                                                      \
    F(95, ReleaseSession, void, OrtSession*)                                                                            \
    F(96, ReleaseValue, void, OrtValue*)                                                                                \
    F(98, ReleaseTypeInfo, void, OrtTypeInfo*)                                                                          \
    F(99, ReleaseTensorTypeAndShapeInfo, void, OrtTensorTypeAndShapeInfo*)                                              \
    F(100, ReleaseSessionOptions, void, OrtSessionOptions*)                                                             \
    F(101, ReleaseCustomOpDomain, void, OrtCustomOpDomain*)                                                             \
    F(130, AddSessionConfigEntry, OrtStatus*, OrtSessionOptions*, const char* key, const char* value)                   \
    F(131, CreateAllocator, OrtStatus*, const OrtSession*, const OrtMemoryInfo*, OrtAllocator**)                        \
    F(132, ReleaseAllocator, void, OrtAllocator*)                                                                       \
    F(133, RunWithBinding, OrtStatus*, OrtSession*, const OrtRunOptions*, const OrtIoBinding*)                          \
    F(134, CreateIoBinding, OrtStatus*, OrtSession*, OrtIoBinding**)                                                    \
    F(135, ReleaseIoBinding, void, OrtIoBinding*)                                                                       \
    F(136, BindInput, OrtStatus*, OrtIoBinding*, const char* name, const OrtValue*)                                     \
    F(137, BindOutput, OrtStatus*, OrtIoBinding*, const char* name, const OrtValue*)                                    \
    F(138, BindOutputToDevice, OrtStatus*, OrtIoBinding*, const char* name, const OrtMemoryInfo*)                       \
    F(140, GetBoundOutputValues, OrtStatus*, const OrtIoBinding*, OrtAllocator*, OrtValue***, std::size_t* count)       \
    F(220, SessionOptionsAppendExecutionProvider_CANN, OrtStatus*, OrtSessionOptions*, const OrtCANNProviderOptions*)   \
    F(221, CreateCANNProviderOptions, OrtStatus*, OrtCANNProviderOptions**)                                             \
    F(222, UpdateCANNProviderOptions, OrtStatus*, OrtCANNProviderOptions*, const char* const* keys,                     \
      const char* const* values, std::size_t count)                                                                     \
    F(224, ReleaseCANNProviderOptions, void, OrtCANNProviderOptions*)                                                   \
    F(268, ShapeInferContext_GetInputTypeShape, OrtStatus*, const OrtShapeInferContext*, std::size_t index,             \
      OrtTensorTypeAndShapeInfo**)                                                                                      \
    F(270, ShapeInferContext_SetOutputTypeShape, OrtStatus*, const OrtShapeInferContext*, std::size_t index,            \
      const OrtTensorTypeAndShapeInfo*)                                                                                 \
    F(274, KernelContext_ParallelFor, OrtStatus*, const OrtKernelContext*, void (*task)(void*, std::size_t),            \
      std::size_t count, std::size_t batches, void* data)                                                               \
    F(320, CreateMemoryInfo_V2, OrtStatus*, const char* name, int device_type, std::uint32_t vendor,                    \
      std::int32_t device, int memory_type, std::size_t alignment, int allocator_type, OrtMemoryInfo**)                 \
    F(386, CopyTensors, OrtStatus*, const OrtEnv*, const OrtValue* const* from, OrtValue* const* to, void* stream,      \
      std::size_t count)                                                                                                \
    F(390, TensorTypeAndShape_HasShape, bool, const OrtTensorTypeAndShapeInfo*)

struct Api {
#define ORT_MEMBER(place, name, result, ...) result (*name)(__VA_ARGS__);
    ORT_FUNCTIONS(ORT_MEMBER)
#undef ORT_MEMBER

    /// From `OrtGetApiBase()`. Throws when the library is older than the API it is asked for.
    explicit Api(const void* api_base);
};

inline constexpr std::uint32_t kApiVersion = 24;

/// The functions of the ONNX Runtime that this process has loaded.
const Api& api();

/// A failed call's text, as an exception.
struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Throws when a call failed.
inline void check(const Api& api, OrtStatus* status) {
    if (!status) return;
    const Error error(api.GetErrorMessage(status));
    api.ReleaseStatus(status);
    throw error;
}

/// What ONNX Runtime made and its release function destroys.
template <class T>
using Owned = std::unique_ptr<T, void (*)(T*)>;

/// Calls a function that makes something: `make(api, api.CreateEnv, api.ReleaseEnv, severity, name)`.
template <class T, class Create, class... Arguments>
Owned<T> make(const Api& api, Create create, void (*release)(T*), Arguments... arguments) {
    T* made = nullptr;
    check(api, create(arguments..., &made));
    return {made, release};
}

// Values of the enumerations that are passed as integers above.
inline constexpr int kWarning = 2;                         // OrtLoggingLevel
inline constexpr int kDisableAllOptimizations = 0;         // GraphOptimizationLevel
inline constexpr int kDeviceAllocator = 0;                 // OrtAllocatorType
inline constexpr int kDefaultMemory = 0;                   // OrtMemType, OrtDeviceMemoryType
inline constexpr int kNpu = 3;                             // OrtMemoryInfoDeviceType
inline constexpr int kInvalidGraph = 10;                   // OrtErrorCode

}  // namespace ort

/// The table that an operator of one's own is described with.
struct OrtCustomOp {
    std::uint32_t version;
    void* (*CreateKernel)(const OrtCustomOp*, const OrtApi*, const OrtKernelInfo*);
    const char* (*GetName)(const OrtCustomOp*);
    const char* (*GetExecutionProviderType)(const OrtCustomOp*);
    int (*GetInputType)(const OrtCustomOp*, std::size_t);
    std::size_t (*GetInputTypeCount)(const OrtCustomOp*);
    int (*GetOutputType)(const OrtCustomOp*, std::size_t);
    std::size_t (*GetOutputTypeCount)(const OrtCustomOp*);
    void (*KernelCompute)(void*, OrtKernelContext*);
    void (*KernelDestroy)(void*);
    int (*GetInputCharacteristic)(const OrtCustomOp*, std::size_t);
    int (*GetOutputCharacteristic)(const OrtCustomOp*, std::size_t);
    int (*GetInputMemoryType)(const OrtCustomOp*, std::size_t);
    int (*GetVariadicInputMinArity)(const OrtCustomOp*);
    int (*GetVariadicInputHomogeneity)(const OrtCustomOp*);
    int (*GetVariadicOutputMinArity)(const OrtCustomOp*);
    int (*GetVariadicOutputHomogeneity)(const OrtCustomOp*);
    OrtStatus* (*CreateKernelV2)(const OrtCustomOp*, const OrtApi*, const OrtKernelInfo*, void**);
    OrtStatus* (*KernelComputeV2)(void*, OrtKernelContext*);
    OrtStatus* (*InferOutputShapeFn)(const OrtCustomOp*, OrtShapeInferContext*);
    int (*GetStartVersion)(const OrtCustomOp*);
    int (*GetEndVersion)(const OrtCustomOp*);
    std::size_t (*GetMayInplace)(int**, int**);
    void (*ReleaseMayInplace)(int*, int*);
    std::size_t (*GetAliasMap)(int**, int**);
    void (*ReleaseAliasMap)(int*, int*);
};
