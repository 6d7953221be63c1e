// Stands for the library of NVIDIA's driver, as far as OCANNL calls it: memory is the CPU's, all happens at once,
// and whoever loads the library says what kernels do. What is out of place ends the process.

#define _GNU_SOURCE
#include <assert.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Result;
typedef void *Handle;
typedef uint64_t Address;
enum { MOST_ARGUMENTS = 256, MOST_NODES = 256, MOST_FUNCTIONS = 256 };

static const Handle DEVICE_CONTEXT = (Handle)0x10, STREAM = (Handle)0x20, POOL = (Handle)0x30;
static const Handle MODULE = (Handle)0x40;

typedef struct { char name[256]; } Function;
typedef struct {
  Function *function;
  unsigned grid[3], block[3], shared_bytes;
  void **arguments, **extra;
  Handle kernel, context;
} Params;
typedef struct { float time; } Event;
typedef struct { Params params; Event *event; uint64_t values[MOST_ARGUMENTS]; void *pointers[MOST_ARGUMENTS]; } Node;
typedef struct { int count; Node nodes[MOST_NODES]; } Graph;

static int (*count_arguments)(const char *kernel);
static void (*run_kernel)(const char *kernel, unsigned blocks, unsigned threads, void **arguments);
static int launches;
static float now;
static Handle current, before;

void stand_in(Handle count, Handle run) { count_arguments = count, run_kernel = run; }
int graph_launches(void) { return launches; }

Result cuInit(unsigned flags) { return flags; }
Result cuDriverGetVersion(int *version) { return *version = 12080, 0; }
Result cuGetErrorName(Result error, const char **name) { return *name = "CUDA_ERROR_INVALID_PTX", 0; }
Result cuGetErrorString(Result error, const char **text) { return *text = "invalid text", 0; }
Result cuDeviceGetCount(int *count) { return *count = 1, 0; }
Result cuDeviceGet(int *device, int number) { return *device = number, 0; }
Result cuDeviceGetName(char *name, int size, int device) { return snprintf(name, size, "C GPU"), 0; }
Result cuDeviceGetAttribute(int *value, int attribute, int device) {
  assert(attribute == 75 || attribute == 76 || attribute == 115);
  return *value = attribute == 75 ? 8 : attribute == 76 ? 0 : !getenv("NO_POOLS"), 0;
}
Result cuDevicePrimaryCtxRetain(Handle *context, int device) { return *context = DEVICE_CONTEXT, 0; }
Result cuDevicePrimaryCtxRelease_v2(int device) { return device; }
Result cuCtxSetCurrent(Handle context) { return current = context, context != DEVICE_CONTEXT; }
Result cuCtxPushCurrent_v2(Handle context) { return before = current, cuCtxSetCurrent(context); }
Result cuCtxPopCurrent_v2(Handle *context) { return *context = current, current = before, 0; }

Result cuStreamCreate(Handle *stream, unsigned flags) { return *stream = STREAM, flags != 1; }
Result cuStreamDestroy_v2(Handle stream) { return stream != STREAM; }
Result cuStreamSynchronize(Handle stream) { return stream != STREAM || current != DEVICE_CONTEXT; }
Result cuEventCreate(Event **event, unsigned flags) { return *event = malloc(sizeof(Event)), flags; }
Result cuEventDestroy_v2(Event *event) { return free(event), 0; }
Result cuEventElapsedTime_v2(float *ms, Event *start, Event *end) { return *ms = end->time - start->time, start == end; }
Result cuEventElapsedTime(float *ms, Event *start, Event *end) { return cuEventElapsedTime_v2(ms, start, end); }

Result cuDeviceGetDefaultMemPool(Handle *pool, int device) { return *pool = POOL, 0; }
Result cuMemPoolSetAttribute(Handle pool, int attribute, uint64_t *value) {
  return pool != POOL || attribute != 4 || *value != UINT64_MAX;
}
Result cuMemAllocAsync(Address *address, size_t size, Handle stream) {
  void *memory = aligned_alloc(256, (size + 255) / 256 * 256);
  memset(memory, 0xa5, size);
  return *address = (Address)memory, stream != STREAM;
}
Result cuMemFreeAsync(Address address, Handle stream) { return free((void *)address), stream != STREAM; }
Result cuMemAlloc_v2(Address *address, size_t size) { return cuMemAllocAsync(address, size, STREAM); }
Result cuMemFree_v2(Address address) { return cuMemFreeAsync(address, STREAM); }
Result cuMemsetD8Async(Address to, unsigned char value, size_t size, Handle stream) {
  return memset((void *)to, value, size), stream != STREAM;
}
Result cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t size, Handle stream) {
  return memcpy((void *)to, from, size), stream != STREAM;
}
Result cuMemcpyDtoHAsync_v2(void *to, Address from, size_t size, Handle stream) {
  return memcpy(to, (void *)from, size), stream != STREAM;
}
Result cuMemcpyDtoDAsync_v2(Address to, Address from, size_t size, Handle stream) {
  return memcpy((void *)to, (void *)from, size), stream != STREAM;
}

Result cuMemGetInfo_v2(size_t *free, size_t *whole) { return *free = 1 << 20, *whole = 1 << 30, 0; }
Result cuCtxSynchronize(void) { return 0; }

Result cuModuleLoadDataEx(Handle *module, const char *text, unsigned count, int *options, void **values) {
  assert(count == 2 && options[0] == 5 && options[1] == 6);
  *module = MODULE;
  if (!getenv("REJECT")) return 0;
  snprintf(values[0], (size_t)values[1], "no such instruction");
  return 218;
}
Result cuModuleUnload(Handle module) { return module != MODULE; }
Result cuModuleGetFunction(Handle *function, Handle module, const char *name) {
  Function *found = malloc(sizeof(Function));
  snprintf(found->name, sizeof found->name, "%s", name);
  return *function = found, module != MODULE;
}

static void take(Node *node, const Params *params) {
  assert(params->grid[1] == 1 && params->grid[2] == 1 && params->block[1] == 1 && params->block[2] == 1);
  assert(!params->shared_bytes && !params->extra && !params->kernel && !params->context);
  node->params = *params;
  for (int k = 0; k < count_arguments(params->function->name); k++) {
    node->values[k] = *(uint64_t *)params->arguments[k];
    node->pointers[k] = &node->values[k];
  }
}
static void run(const Node *node) {
  if (node->event) {
    node->event->time = now;
    return;
  }
  now += 0.25f;
  const Params *p = &node->params;
  run_kernel(p->function->name, p->grid[0], p->block[0], (void **)node->pointers);
}
Result cuLaunchKernel(Function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared_bytes, Handle stream, void **arguments, void **extra) {
  Params params = {f, {gx, gy, gz}, {bx, by, bz}, shared_bytes, arguments, extra};
  Node node;
  node.event = NULL;
  take(&node, &params);
  run(&node);
  return stream != STREAM;
}
static Node *append(Graph *graph, Node *const *after, size_t count) {
  for (size_t k = 0; k < count; k++) assert(graph->nodes <= after[k] && after[k] < graph->nodes + graph->count);
  assert(graph->count < MOST_NODES);
  return &graph->nodes[graph->count++];
}
Result cuGraphCreate(Graph **graph, unsigned flags) { return *graph = calloc(1, sizeof(Graph)), flags; }
Result cuGraphAddKernelNode_v2(Node **node, Graph *graph, Node *const *after, size_t count, const Params *params) {
  *node = append(graph, after, count);
  return take(*node, params), 0;
}
Result cuGraphAddEventRecordNode(Node **node, Graph *graph, Node *const *after, size_t count, Event *event) {
  *node = append(graph, after, count);
  return (*node)->event = event, !event;
}
Result cuGraphInstantiateWithFlags(Graph **executable, Graph *graph, unsigned long long flags) {
  return *executable = graph, flags != 0;
}
Result cuGraphExecKernelNodeSetParams_v2(Graph *graph, Node *node, const Params *params) {
  assert(node->params.function == params->function);
  return take(node, params), 0;
}
Result cuGraphLaunch(Graph *graph, Handle stream) {
  launches++;
  for (int k = 0; k < graph->count; k++)
    run(&graph->nodes[k]);
  return stream != STREAM;
}
Result cuGraphExecDestroy(Graph *executable) { return 0; }
Result cuGraphDestroy(Graph *graph) { return free(graph), 0; }

// As the driver, it takes no memory for a map that is not aligned.
Result cuTensorMapEncodeTiled(uint64_t *map, int type, unsigned rank, Address address, const uint64_t *sizes,
                              const uint64_t *strides, const unsigned *box, const unsigned *steps, int interleave,
                              int swizzle, int promotion, int fill) {
  if ((uintptr_t)map % 64 || type != 2 || rank != 2 || interleave || swizzle != 3 || promotion != 2 || fill) return 1;
  memset(map, 0, 128);
  map[0] = address, map[1] = sizes[0], map[2] = sizes[1], map[3] = strides[0], map[4] = box[0], map[5] = box[1];
  return steps[0] != 1 || steps[1] != 1;
}

// How the bindings find all others, by names without a version.
Result cuGetProcAddress_v2(const char *name, Handle *function, int version, uint64_t flags, int *status) {
  static const char *const endings[] = {"_v2", "", "WithFlags"};
  Handle library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  *function = NULL;
  for (int k = 0; k < 3 && !*function; k++) {
    char versioned[256];
    snprintf(versioned, sizeof versioned, "%s%s", name, endings[k]);
    *function = dlsym(library, versioned);
  }
  if (status) *status = *function ? 0 : 1;
  return *function ? 0 : 500;
}
