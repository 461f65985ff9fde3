/* A libnvidia-ml.so.1 that answers from a JSON file: real loading, real structs, no GPU.
 *
 * FAKE_NVML_STATE names the file (its keys are the fields of the dataclasses in __init__.py). It is looked at before
 * every answer, so a test changes the world by replacing it while a process runs. Without the file no driver is
 * loaded. FAKE_NVML_LOG names a file that gets the name of every function called.
 *
 * Compiled with -DDRIVER=470 it lacks what came after that driver, and with -DDRIVER=535 it has that series' longer
 * process struct. What it does not imitate: names and limits of real hardware, and anything that sets something.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef DRIVER
#define DRIVER 580
#endif

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    GPU_IS_LOST = 15,
    RESET_REQUIRED = 16,
    ARGUMENT_VERSION_MISMATCH = 25,
};
static const char *const ERRORS[] = {
    "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions", "Already Initialized",
    "Not Found", "Insufficient Size", "Insufficient External Power", "Driver Not Loaded", "Timeout",
    "Interrupt Request Issue", "NVML Shared Library Not Found", "Function Not Found", "Corrupted infoROM",
    "GPU is lost", "GPU requires reset", "The operating system has blocked the request",
    "Driver/library version mismatch", "In use by another client", "Insufficient Memory", "No data",
};

/* ---- JSON: objects and arrays are lists of named values ---- */

struct json {
    enum { NOTHING, NUMBER, TEXT, LIST } kind;
    double number;
    char *name, *text;
    struct json *first, *next;
};

static void fail(const char *why) {
    fprintf(stderr, "fake_nvml: %s: %s\n", getenv("FAKE_NVML_STATE"), why);
    abort(); /* a broken test, which no error code should hide */
}

static void skip_space(const char **at) { *at += strspn(*at, " \t\r\n"); }

static char *parse_text(const char **at) {
    const char *from = *at + 1;
    char *text = malloc(strlen(from) + 1), *to = text;
    for (; *from && *from != '"'; from++) {
        if (*from == '\\' && *++from == 'u') fail("no \\u escapes, please: names are plain ASCII");
        *to++ = *from == 'n' && from[-1] == '\\' ? '\n' : *from;
    }
    if (!*from) fail("a text without end");
    *to = 0;
    *at = from + 1;
    return text;
}

static struct json *parse(const char **at) {
    struct json *value = calloc(1, sizeof *value);
    skip_space(at);
    if (**at == '{' || **at == '[') {
        char end = **at == '{' ? '}' : ']';
        struct json **link = &value->first;
        value->kind = LIST;
        for (++*at, skip_space(at); **at != end; link = &(*link)->next) {
            char *name = NULL;
            if (end == '}') {
                if (**at != '"') fail("a key must be a text");
                name = parse_text(at);
                skip_space(at);
                if (*(*at)++ != ':') fail("a key without a colon");
            }
            *link = parse(at);
            (*link)->name = name;
            skip_space(at);
            if (**at == ',') {
                ++*at;
                skip_space(at);
            } else if (**at != end) {
                fail("neither a comma nor an end");
            }
        }
        ++*at;
    } else if (**at == '"') {
        value->kind = TEXT;
        value->text = parse_text(at);
    } else if (!strncmp(*at, "null", 4)) {
        *at += 4;
    } else if (!strncmp(*at, "true", 4) || !strncmp(*at, "false", 5)) {
        value->kind = NUMBER;
        value->number = **at == 't';
        *at += **at == 't' ? 4 : 5;
    } else {
        char *end;
        value->kind = NUMBER;
        value->number = strtod(*at, &end);
        if (end == *at) fail("neither a number nor anything else");
        *at = end;
    }
    return value;
}

static void discard(struct json *value) {
    while (value) {
        struct json *next = value->next;
        discard(value->first);
        free(value->name);
        free(value->text);
        free(value);
        value = next;
    }
}

static struct json *get(struct json *object, const char *name) {
    for (struct json *value = object ? object->first : NULL; value; value = value->next)
        if (value->name && !strcmp(value->name, name)) return value->kind == NOTHING ? NULL : value;
    return NULL;
}

static struct json *item(struct json *list, int index) {
    struct json *value = list ? list->first : NULL;
    while (value && index--) value = value->next;
    return value;
}

static int length(struct json *list) {
    int count = 0;
    for (struct json *value = list ? list->first : NULL; value; value = value->next) count++;
    return count;
}

static double number(struct json *object, const char *name, double otherwise) {
    struct json *value = get(object, name);
    return value && value->kind == NUMBER ? value->number : otherwise;
}

static const char *text(struct json *object, const char *name) {
    struct json *value = get(object, name);
    return value && value->kind == TEXT ? value->text : "";
}

/* ---- the world ---- */

#define MOST_GPUS 32
#define MOST_INSTANCES 7
struct handle { int gpu, instance; }; /* instance -1: the GPU itself */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct handle handles[MOST_GPUS][1 + MOST_INSTANCES];
static struct json *world;
static struct stat read_at;
static int users; /* nvmlInit less nvmlShutdown */
static double generation; /* of the driver that nvmlInit met */
static int lost[MOST_GPUS]; /* the code a GPU has failed with: it sticks until NVML starts anew */

static void unlock(void *ignored) {
    (void)ignored;
    pthread_mutex_unlock(&mutex);
}

static void look(void) {
    const char *path = getenv("FAKE_NVML_STATE");
    struct stat now;
    if (!path || stat(path, &now)) {
        discard(world);
        world = NULL;
        memset(&read_at, 0, sizeof read_at);
        return;
    }
    if (now.st_ino == read_at.st_ino && now.st_size == read_at.st_size &&
        now.st_mtim.tv_sec == read_at.st_mtim.tv_sec && now.st_mtim.tv_nsec == read_at.st_mtim.tv_nsec)
        return;
    FILE *file = fopen(path, "r");
    if (!file) fail(strerror(errno));
    fstat(fileno(file), &now); /* it may have been replaced since */
    char *content = calloc(1, now.st_size + 1);
    const char *at = content;
    if (fread(content, 1, now.st_size, file) != (size_t)now.st_size) fail("cannot be read whole");
    fclose(file);
    discard(world);
    world = parse(&at);
    read_at = now;
    free(content);
}

static void write_log(const char *function) {
    const char *path = getenv("FAKE_NVML_LOG");
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0644) : -1;
    if (file < 0) return;
    if (dprintf(file, "%s\n", function) < 0) fail("the log cannot be written");
    close(file);
}

static double of_function(struct json *table, const char *function) {
    return number(table, function, number(table, "*", 0));
}

static int enter(const char *function, struct handle *handle, struct json **device) {
    look();
    write_log(function);
    double delay = of_function(get(world, "delays"), function); /* seconds */
    if (delay > 0) usleep(delay * 1e6);
    int code = of_function(get(world, "errors"), function);
    if (!strcmp(function, "nvmlInitWithFlags")) return world ? code : DRIVER_NOT_LOADED;
    if (!users || !world || generation != number(world, "generation", 0)) return UNINITIALIZED;
    if (code || !device) return code;
    if (!handle) return INVALID_ARGUMENT;
    *device = item(get(world, "gpus"), handle->gpu);
    if (!*device) return GPU_IS_LOST;
    code = of_function(get(*device, "errors"), function);
    if (code == GPU_IS_LOST || code == RESET_REQUIRED) lost[handle->gpu] = code;
    if (lost[handle->gpu]) return lost[handle->gpu];
    if (code || handle->instance < 0) return code;
    *device = item(get(*device, "instances"), handle->instance);
    return *device ? (int)of_function(get(*device, "errors"), function) : NOT_FOUND;
}

#define API __attribute__((visibility("default"))) int
#define LOCK \
    pthread_mutex_lock(&mutex); \
    __attribute__((cleanup(unlock), unused)) int locked
#define ENTER_SYSTEM \
    LOCK; \
    int refused = enter(__func__, NULL, NULL); \
    if (refused) return refused
#define ENTER(handle) \
    LOCK; \
    struct json *device = NULL; \
    int refused = enter(__func__, handle, &device); \
    if (refused) return refused
#define COPY(name) \
    do { \
        if (strlen(text(device, name)) >= size) return INSUFFICIENT_SIZE; \
        strcpy(out, text(device, name)); \
        return SUCCESS; \
    } while (0)

static int reading(struct json *device, const char *name, unsigned *out) {
    if (!get(device, name)) return NOT_SUPPORTED;
    *out = number(device, name, 0);
    return SUCCESS;
}

/* ---- processes, and the memory they hold ---- */

static bool alive(int pid) {
    char path[64], line[512], *state;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file) return false;
    state = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    fclose(file);
    return state && !strchr("ZX", state[2]); /* a zombie has given its memory back */
}

/* Seconds for which the pid is known to be dead. All processes that ask must agree: the first leaves a file. */
static double dead_for(int pid) {
    char path[4096];
    struct stat mark;
    struct timespec now;
    snprintf(path, sizeof path, "%s.%d.dead", getenv("FAKE_NVML_STATE"), pid);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
    if (file >= 0) close(file);
    if (stat(path, &mark)) fail(strerror(errno));
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec - mark.st_mtim.tv_sec + (now.tv_nsec - mark.st_mtim.tv_nsec) / 1e9;
}

/* A process entry with "release" follows the life of its pid; any other stays until the file changes. */
static bool listed(struct json *process) { return !get(process, "release") || alive(number(process, "pid", 0)); }

static bool holds(struct json *process) {
    return listed(process) || dead_for(number(process, "pid", 0)) < number(process, "release", 0);
}

static unsigned long long held(struct json *device) {
    unsigned long long bytes = number(device, "unlisted", 0);
    struct json *processes = get(device, "processes"), *instances = get(device, "instances");
    for (struct json *p = processes ? processes->first : NULL; p; p = p->next)
        if (holds(p)) bytes += number(p, "bytes", 0);
    for (struct json *i = instances ? instances->first : NULL; i; i = i->next) bytes += held(i);
    return bytes;
}

struct process_v2 { unsigned pid; unsigned long long bytes; unsigned gpu_instance, compute_instance; };
struct process_535 { unsigned pid; unsigned long long bytes; unsigned gpu_instance, compute_instance;
                     unsigned long long protected_bytes; };

static int list(struct json *device, const char *use, unsigned *count, void *out, size_t size) {
    unsigned room = *count, found = 0;
    struct json *processes = get(device, "processes");
    for (struct json *p = processes ? processes->first : NULL; p; p = p->next) {
        if (!strstr(text(p, "uses"), use) || !listed(p)) continue;
        if (out && found < room) {
            struct process_v2 *entry = (void *)((char *)out + found * size);
            memset(entry, 0, size);
            entry->pid = number(p, "pid", 0);
            entry->bytes = get(p, "bytes") ? (unsigned long long)number(p, "bytes", 0) : ~0ULL;
            entry->gpu_instance = number(device, "gpu_instance", ~0u);
            entry->compute_instance = number(device, "compute_instance", ~0u);
        }
        found++;
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

#define LISTS(name, use, type) \
    API name(struct handle *handle, unsigned *count, void *out) { \
        ENTER(handle); \
        return list(device, use, count, out, sizeof(type)); \
    }
LISTS(nvmlDeviceGetComputeRunningProcesses_v2, "compute", struct process_v2)
LISTS(nvmlDeviceGetGraphicsRunningProcesses_v2, "graphics", struct process_v2)
LISTS(nvmlDeviceGetMPSComputeRunningProcesses_v2, "mps", struct process_v2)
#if DRIVER == 535
LISTS(nvmlDeviceGetComputeRunningProcesses_v3, "compute", struct process_535)
LISTS(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics", struct process_535)
LISTS(nvmlDeviceGetMPSComputeRunningProcesses_v3, "mps", struct process_535)
API nvmlDeviceGetConfComputeMemSizeInfo(struct handle *handle, void *out) { ENTER(handle); (void)out; return NOT_SUPPORTED; }
#elif DRIVER > 535
LISTS(nvmlDeviceGetComputeRunningProcesses_v3, "compute", struct process_v2)
LISTS(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics", struct process_v2)
LISTS(nvmlDeviceGetMPSComputeRunningProcesses_v3, "mps", struct process_v2)
API nvmlDeviceGetConfComputeMemSizeInfo(struct handle *handle, void *out) { ENTER(handle); (void)out; return NOT_SUPPORTED; }
API nvmlDeviceGetRunningProcessDetailList(struct handle *handle, void *out) { ENTER(handle); (void)out; return NOT_SUPPORTED; }
#endif

struct memory { unsigned long long total, free, used; };
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };

static struct memory_v2 memory(struct json *device) {
    struct memory_v2 m = {.total = number(device, "total", 0), .reserved = number(device, "reserved", 0)};
    m.used = held(device);
    if (m.used > m.total - m.reserved) fail("more is used than there is");
    m.free = m.total - m.reserved - m.used;
    return m;
}

API nvmlDeviceGetMemoryInfo(struct handle *handle, struct memory *out) {
    ENTER(handle);
    struct memory_v2 m = memory(device);
    *out = (struct memory){m.total, m.free, m.used + m.reserved};
    return SUCCESS;
}

#if DRIVER >= 510
API nvmlDeviceGetMemoryInfo_v2(struct handle *handle, struct memory_v2 *out) {
    ENTER(handle);
    if (out->version != (sizeof *out | 2 << 24)) return ARGUMENT_VERSION_MISMATCH;
    unsigned version = out->version;
    *out = memory(device);
    out->version = version;
    return SUCCESS;
}
#endif

/* ---- the system ---- */

API nvmlInitWithFlags(unsigned flags) {
    ENTER_SYSTEM;
    (void)flags;
    if (!users++) {
        for (int gpu = 0; gpu < MOST_GPUS; gpu++)
            for (int i = 0; i <= MOST_INSTANCES; i++) handles[gpu][i] = (struct handle){gpu, i - 1};
        memset(lost, 0, sizeof lost);
    }
    generation = number(world, "generation", 0);
    return SUCCESS;
}
API nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API nvmlInit(void) { return nvmlInitWithFlags(0); }

API nvmlShutdown(void) {
    LOCK;
    look();
    write_log(__func__);
    if (!users) return UNINITIALIZED;
    users--;
    return SUCCESS;
}

__attribute__((visibility("default"))) const char *nvmlErrorString(int code) {
    return code >= 0 && (size_t)code < sizeof ERRORS / sizeof *ERRORS ? ERRORS[code] : "Unknown Error";
}

#define SYSTEM_TEXT(name, key) \
    API name(char *out, unsigned size) { \
        ENTER_SYSTEM; \
        struct json *device = world; \
        COPY(key); \
    }
SYSTEM_TEXT(nvmlSystemGetDriverVersion, "driver")
SYSTEM_TEXT(nvmlSystemGetNVMLVersion, "driver")

API nvmlSystemGetCudaDriverVersion_v2(int *out) {
    ENTER_SYSTEM;
    *out = number(world, "cuda", 0);
    return SUCCESS;
}
API nvmlSystemGetCudaDriverVersion(int *out) { return nvmlSystemGetCudaDriverVersion_v2(out); }

/* ---- which device ---- */

API nvmlDeviceGetCount_v2(unsigned *out) {
    ENTER_SYSTEM;
    *out = length(get(world, "gpus"));
    return SUCCESS;
}

API nvmlDeviceGetHandleByIndex_v2(unsigned index, struct handle **out) {
    if (index >= MOST_GPUS) return INVALID_ARGUMENT;
    LOCK;
    struct json *device = NULL;
    int refused = enter(__func__, &(struct handle){index, -1}, &device);
    if (refused == GPU_IS_LOST && !device) return INVALID_ARGUMENT; /* an index beyond the last */
    if (refused) return refused;
    *out = &handles[index][0];
    return SUCCESS;
}

API nvmlDeviceGetHandleByUUID(const char *uuid, struct handle **out) {
    ENTER_SYSTEM;
    int gpu = 0;
    struct json *gpus = get(world, "gpus");
    for (struct json *g = gpus ? gpus->first : NULL; g; g = g->next, gpu++) {
        int instance = 0;
        struct json *instances = get(g, "instances");
        if (!strcmp(text(g, "uuid"), uuid)) return *out = &handles[gpu][0], SUCCESS;
        for (struct json *i = instances ? instances->first : NULL; i; i = i->next, instance++)
            if (!strcmp(text(i, "uuid"), uuid)) return *out = &handles[gpu][1 + instance], SUCCESS;
    }
    return NOT_FOUND;
}

API nvmlDeviceGetIndex(struct handle *handle, unsigned *out) {
    ENTER(handle);
    *out = handle->instance < 0 ? handle->gpu : handle->instance;
    return SUCCESS;
}
API nvmlDeviceGetMinorNumber(struct handle *handle, unsigned *out) {
    ENTER(handle);
    *out = handle->gpu;
    return SUCCESS;
}

#define DEVICE_TEXT(name, key) \
    API name(struct handle *handle, char *out, unsigned size) { \
        ENTER(handle); \
        COPY(key); \
    }
DEVICE_TEXT(nvmlDeviceGetName, "name")
DEVICE_TEXT(nvmlDeviceGetUUID, "uuid")

struct pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char text[32];
};
API nvmlDeviceGetPciInfo_v3(struct handle *handle, struct pci *out) {
    ENTER(handle);
    if (handle->instance >= 0) return NOT_SUPPORTED;
    *out = (struct pci){.bus = handle->gpu + 1, .id = 0x233010de};
    snprintf(out->legacy, sizeof out->legacy, "0000:%02X:00.0", out->bus);
    snprintf(out->text, sizeof out->text, "00000000:%02X:00.0", out->bus);
    return SUCCESS;
}

/* ---- MIG: on where there is a list of instances, be it empty ---- */

API nvmlDeviceGetMigMode(struct handle *handle, unsigned *current, unsigned *pending) {
    ENTER(handle);
    if (!get(device, "instances")) return NOT_SUPPORTED;
    *current = *pending = 1;
    return SUCCESS;
}
API nvmlDeviceGetMaxMigDeviceCount(struct handle *handle, unsigned *out) {
    ENTER(handle);
    *out = get(device, "instances") ? MOST_INSTANCES : 0;
    return SUCCESS;
}
API nvmlDeviceGetMigDeviceHandleByIndex(struct handle *handle, unsigned index, struct handle **out) {
    ENTER(handle);
    if (index >= MOST_INSTANCES || !item(get(device, "instances"), index)) return NOT_FOUND;
    *out = &handles[handle->gpu][1 + index];
    return SUCCESS;
}
API nvmlDeviceIsMigDeviceHandle(struct handle *handle, unsigned *out) {
    ENTER(handle);
    *out = handle->instance >= 0;
    return SUCCESS;
}
API nvmlDeviceGetDeviceHandleFromMigDeviceHandle(struct handle *handle, struct handle **out) {
    ENTER(handle);
    *out = &handles[handle->gpu][0];
    return SUCCESS;
}
API nvmlDeviceGetGpuInstanceId(struct handle *handle, unsigned *out) {
    ENTER(handle);
    return reading(device, "gpu_instance", out);
}
API nvmlDeviceGetComputeInstanceId(struct handle *handle, unsigned *out) {
    ENTER(handle);
    return reading(device, "compute_instance", out);
}

/* ---- readings; a key that is null is not supported ---- */

#define GAUGE(name, key) \
    API name(struct handle *handle, unsigned *out) { \
        ENTER(handle); \
        return reading(device, key, out); \
    }
GAUGE(nvmlDeviceGetFanSpeed, "fan")
GAUGE(nvmlDeviceGetPowerUsage, "power")
GAUGE(nvmlDeviceGetPowerManagementLimit, "power_limit")
GAUGE(nvmlDeviceGetEnforcedPowerLimit, "power_limit")
GAUGE(nvmlDeviceGetPerformanceState, "performance")
GAUGE(nvmlDeviceGetPersistenceMode, "persistence")
GAUGE(nvmlDeviceGetComputeMode, "compute_mode")
GAUGE(nvmlDeviceGetDisplayMode, "display")
GAUGE(nvmlDeviceGetDisplayActive, "display")

API nvmlDeviceGetUtilizationRates(struct handle *handle, unsigned out[2]) {
    ENTER(handle);
    out[1] = number(device, "memory_utilisation", 0);
    return reading(device, "utilisation", &out[0]);
}
API nvmlDeviceGetTemperature(struct handle *handle, int sensor, unsigned *out) {
    ENTER(handle);
    return sensor ? INVALID_ARGUMENT : reading(device, "temperature", out);
}
#if DRIVER >= 570
struct temperature { unsigned version, sensor; int celsius; };
API nvmlDeviceGetTemperatureV(struct handle *handle, struct temperature *out) {
    ENTER(handle);
    if (out->version != (sizeof *out | 1 << 24)) return ARGUMENT_VERSION_MISMATCH;
    return out->sensor ? INVALID_ARGUMENT : reading(device, "temperature", (unsigned *)&out->celsius);
}
#endif
API nvmlDeviceGetCudaComputeCapability(struct handle *handle, int *major, int *minor) {
    ENTER(handle);
    struct json *capability = get(device, "capability");
    if (!capability) return NOT_SUPPORTED;
    *major = item(capability, 0)->number;
    *minor = item(capability, 1)->number;
    return SUCCESS;
}

/* What monitors ask for and these GPUs do not have; the further arguments are not looked at. */
#define UNSUPPORTED(name) \
    API name(struct handle *handle) { \
        ENTER(handle); \
        return NOT_SUPPORTED; \
    }
UNSUPPORTED(nvmlDeviceGetSerial)
UNSUPPORTED(nvmlDeviceGetBAR1MemoryInfo)
UNSUPPORTED(nvmlDeviceGetClockInfo)
UNSUPPORTED(nvmlDeviceGetMaxClockInfo)
UNSUPPORTED(nvmlDeviceGetEncoderUtilization)
UNSUPPORTED(nvmlDeviceGetDecoderUtilization)
UNSUPPORTED(nvmlDeviceGetTotalEccErrors)
UNSUPPORTED(nvmlDeviceGetPcieThroughput)
UNSUPPORTED(nvmlDeviceGetProcessUtilization)
UNSUPPORTED(nvmlDeviceGetFieldValues)
UNSUPPORTED(nvmlDeviceGetDriverModel_v2)
