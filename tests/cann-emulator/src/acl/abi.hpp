// The part of AscendCL's C ABI that the emulator implements: codes and types. Names and values are those of CANN's
// acl_base.h, acl_rt.h, acl_mdl.h, rt_error_codes.h and ge_error_codes.h.
#pragma once

#include <cstddef>
#include <cstdint>

using aclError = int;
using aclrtStream = void*;
using aclrtEvent = void*;

inline constexpr aclError ACL_SUCCESS = 0;
inline constexpr aclError ACL_ERROR_INVALID_PARAM = 100000;
inline constexpr aclError ACL_ERROR_UNINITIALIZE = 100001;
inline constexpr aclError ACL_ERROR_REPEAT_INITIALIZE = 100002;
inline constexpr aclError ACL_ERROR_REPEAT_FINALIZE = 100037;
inline constexpr aclError ACL_ERROR_API_NOT_SUPPORT = 200001;
inline constexpr aclError ACL_ERROR_INTERNAL_ERROR = 500000;
inline constexpr aclError ACL_ERROR_RT_PARAM_INVALID = 107000;
inline constexpr aclError ACL_ERROR_RT_INVALID_DEVICEID = 107001;
inline constexpr aclError ACL_ERROR_RT_CONTEXT_NULL = 107002;
inline constexpr aclError ACL_ERROR_RT_INVALID_HANDLE = 107017;
inline constexpr aclError ACL_ERROR_RT_MEMORY_ALLOCATION = 207001;
inline constexpr aclError ACL_ERROR_RT_MEMORY_FREE = 207002;
inline constexpr aclError ACL_ERROR_RT_MODEL_EXECUTE = 507011;
inline constexpr aclError ACL_ERROR_GE_EXEC_MODEL_PATH_INVALID = 145002;
inline constexpr aclError ACL_ERROR_GE_EXEC_MODEL_ID_INVALID = 145003;
inline constexpr aclError ACL_ERROR_GE_EXEC_MODEL_ADDR_INVALID = 145007;
inline constexpr aclError ACL_ERROR_GE_PARAM_INVALID = 145000;
inline constexpr aclError ACL_ERROR_GE_MEMORY_ALLOCATION = 245000;
inline constexpr aclError ACL_ERROR_GE_LOAD_MODEL = 545001;

enum aclrtMemcpyKind {
    ACL_MEMCPY_HOST_TO_HOST,
    ACL_MEMCPY_HOST_TO_DEVICE,
    ACL_MEMCPY_DEVICE_TO_HOST,
    ACL_MEMCPY_DEVICE_TO_DEVICE,
};

enum aclDataType : int {
    ACL_DT_UNDEFINED = -1,
    ACL_FLOAT = 0,
    ACL_FLOAT16 = 1,
    ACL_INT8 = 2,
    ACL_INT32 = 3,
    ACL_UINT8 = 4,
    ACL_INT16 = 6,
    ACL_UINT16 = 7,
    ACL_UINT32 = 8,
    ACL_INT64 = 9,
    ACL_UINT64 = 10,
    ACL_DOUBLE = 11,
    ACL_BOOL = 12,
    ACL_BF16 = 27,
};

struct aclmdlIODims {
    char name[128];
    std::size_t dimCount;
    std::int64_t dims[128];
};

struct aclDataBuffer;
struct aclTensorDesc;
struct aclmdlDataset;
struct aclmdlDesc;
struct aclopAttr;
