// Single operators (the provider with enable_cann_graph=0). Nothing of this project uses them, so they are refused.

#include "export.hpp"

using namespace emulator;

struct aclopAttr {};

ACL_EXPORT aclopAttr* aclopCreateAttr() { return new aclopAttr; }
ACL_EXPORT void aclopDestroyAttr(const aclopAttr* attributes) { delete attributes; }
ACL_EXPORT aclError aclopSetAttrBool(aclopAttr*, const char*, std::uint8_t) { return ACL_SUCCESS; }
ACL_EXPORT aclError aclopSetAttrFloat(aclopAttr*, const char*, float) { return ACL_SUCCESS; }
ACL_EXPORT aclError aclopSetAttrInt(aclopAttr*, const char*, std::int64_t) { return ACL_SUCCESS; }
ACL_EXPORT aclError aclopSetAttrString(aclopAttr*, const char*, const char*) { return ACL_SUCCESS; }
ACL_EXPORT aclError aclopSetAttrListInt(aclopAttr*, const char*, int, const std::int64_t*) { return ACL_SUCCESS; }

ACL_EXPORT aclError aclopCompileAndExecute(const char* op, int, const aclTensorDesc* const[], const aclDataBuffer* const[],
                                           int, const aclTensorDesc* const[], aclDataBuffer* const[], const aclopAttr*,
                                           int, int, const char*, aclrtStream) {
    return acl_call("aclopCompileAndExecute", [&](LogLine& line) {
        line.add("op", op);
        throw Failure(ACL_ERROR_API_NOT_SUPPORT, "the emulator runs compiled graphs only, no single operators");
    });
}
