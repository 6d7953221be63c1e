// RUN: ocannl-opt %s -t c --split-input-file | filecheck %s

// What is used once stands where it is used, and what does not vary in a loop before it.
loops.func @f attributes {arena = 64 : i64} {
  %x = assign.node "for" on_device : memref<8x16xf32>
  %y = assign.node "y" local at 0 : memref<8xf32>
  loops.nest "y.1" (i = 8) schedule <order = (i), lanes = k : 16> {
    %c = arith.constant 2.0 : f32
    %s = loops.reduce add (k = 16) : f32 {
      %a = loops.load %x[i, k]
      %p = arith.mulf %a, %a : f32
      loops.yield %p
    }
    %h = arith.divf %s, %c : f32
    %dead = math.exp %h : f32
    loops.store %h, %y[i]
  }
  loops.nest "z" (i = 8, k = 16) schedule <order = (i, k), lanes = k : 16> {
    %a = loops.load %x[i, k]
    %m = loops.load %y[i]
    %e = math.exp %m : f32
    %r = arith.maximumf %a, %e : f32
    loops.store %r, %x[i, k]
  }
}
// CHECK:      // C11
// CHECK:      static inline float max_nanf(
// CHECK-NOT:  min_nan
// CHECK:      static void y_1_nest(const float for_[restrict 8][16], float y[restrict 8]) {
// CHECK-NEXT:   for (int i = 0; i < 8; i++) {
// CHECK-NEXT:     float sum1 = 0.0f;
// CHECK-NEXT:     OMP(simd reduction(+:sum1))
// CHECK-NEXT:     for (int k = 0; k < 16; k++) {
// CHECK-NEXT:       const float v2 = for_[i][k];
// CHECK-NEXT:       sum1 += v2 * v2;
// CHECK-NEXT:     }
// CHECK-NEXT:     y[i] = sum1 / 2.0f;
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK:      static void z_nest(float for_[restrict 8][16], const float y[restrict 8]) {
// CHECK-NEXT:   for (int i = 0; i < 8; i++) {
// CHECK-NEXT:     const float v1 = expf(y[i]);
// CHECK-NEXT:     OMP(simd)
// CHECK-NEXT:     for (int k = 0; k < 16; k++) {
// CHECK-NEXT:       const float v2 = for_[i][k];
// CHECK-NEXT:       for_[i][k] = max_nanf(v2, v1);
// CHECK:      float *for_; /* for: f32[8][16]; {{.*}} */
// CHECK:      void f_run(const f_memory *memory, const f_indices *indices) {
// CHECK-NEXT:   char *const work = memory->workspace;
// CHECK-NEXT:   void *const y = work + 0;
// CHECK-NEXT:   void *const for_ = memory->for_;
// CHECK-NEXT:   (void)indices;
// CHECK-NEXT:   y_1_nest(for_, y);
// CHECK-NEXT:   z_nest(for_, y);
// CHECK-NEXT: }

// -----

// A loop calls its body with structures of its own, until a flag is 0.
loops.func @body indices (t = 5, n) attributes {arena = 0 : i64} {
  %x = assign.node "x" on_device : memref<3xf16>
  loops.nest "x" (i = 3) {
    %r = loops.index t + n : f32
    %h = arith.truncf %r : f32 to f16
    loops.store %h, %x[i]
  }
}
loops.func @exp indices (n) attributes {arena = 0 : i64} {
  %x = assign.node "x" on_device : memref<3xf16>
  %go = assign.node "go" on_device : memref<1xf16>
  loops.repeat @body t = 5 while %go ("x" = %x)
}
// CHECK:      static inline uint16_t to_f16(float number) {
// CHECK:        const uint16_t v1 = to_f16((float)(n + t));
// CHECK:      void exp_run(
// CHECK:        for (int t = 0; t < 5; t++) {
// CHECK-NEXT:     if ((*(const uint16_t *)go & 32767) == 0) break;
// CHECK-NEXT:     const body_memory nodes = {.x = x, .workspace = 0};
// CHECK-NEXT:     const body_indices at = {.t = t, .n = n};
// CHECK-NEXT:     body_run(&nodes, &at);
// CHECK-NEXT:   }

// -----

// The greatest of integers is a choice, whose operands keep their parentheses.
loops.func @most {
  %x = assign.node "x" constant : memref<4x8xi32>
  %y = assign.node "y" on_device : memref<4xi32>
  loops.nest "y" (i = 4) {
    %one = arith.constant 1 : i32
    %s = loops.reduce max (j = 8) : i32 {
      %a = loops.load %x[i, j]
      %b = arith.andi %a, %one : i32
      loops.yield %b
    }
    loops.store %s, %y[i]
  }
}
// CHECK:      static void y_nest(
// CHECK:        most1 = most1 > (x[i][j] & 1) ? most1 : (x[i][j] & 1);
