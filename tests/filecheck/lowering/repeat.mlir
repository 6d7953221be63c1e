// RUN: ocannl-opt %s -p lower-assign-to-loops | filecheck %s --check-prefix LOOPS
// RUN: ocannl-opt %s -p lower-assign-to-loops,plan-memory -t llvm | filecheck %s --check-prefix LLVM

// The body has room of its own in the arena of its caller.
assign.routine @step indices (t = 6, n) {
  %s = assign.node "s" on_device : memref<4xf32>
  %u = assign.node "u" local : memref<4xf32>
  %going = assign.node "going" on_device : memref<1xf32>
  %now = assign.embed t + n : f32
  assign.accum %u[i] = add(%s[i], %now) over (i = 4)
  assign.accum %s[i] = %u[i] over (i = 4)
  assign.accum %going[0] = lt(%u[0], 100.0) over ()
}

// LOOPS-LABEL: loops.func @main indices (n) {
// LOOPS:         loops.repeat @step t = 6 while %going ("s" = %x, "going" = %going)
// LLVM-LABEL:  define internal void @"main.repeat_step"(ptr %a0, ptr %a1, ptr %a2, i64 %a4, ptr %flag) #0 {
// LLVM-NEXT:     %args = alloca [5 x i64], align 8
// LLVM:          store i64 %a4, ptr %slot4, align 8
// LLVM-NEXT:     br label %next
// LLVM-NEXT:   next:
// LLVM-NEXT:     %index = phi i64 [ 0, %0 ], [ %index.next, %run ]
// LLVM-NEXT:     %more = icmp ult i64 %index, 6
// LLVM-NEXT:     br i1 %more, label %look, label %done
// LLVM-NEXT:   look:
// LLVM-NEXT:     %flag.bits = load i32, ptr %flag
// LLVM-NEXT:     %flag.number = and i32 %flag.bits, 2147483647
// LLVM-NEXT:     %going = icmp ne i32 %flag.number, 0
// LLVM-NEXT:     br i1 %going, label %run, label %done
// LLVM-NEXT:   run:
// LLVM-NEXT:     store i64 %index, ptr %slot3, align 8
// LLVM-NEXT:     call void @"routine step"(ptr %args)
// LLVM:        define void @"routine main"(ptr %args) #0 {
// LLVM:          call void @"main.repeat_step"(
assign.routine @main indices (n) {
  %x = assign.node "x" on_device : memref<4xf32>
  %going = assign.node "going" local : memref<1xf32>
  assign.accum %going[0] = 1.0 over ()
  assign.repeat @step t = 6 while %going ("s" = %x, "going" = %going)
}
