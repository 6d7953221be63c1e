// RUN: ocannl-opt %s -t llvm | filecheck %s

// Slot 0 is the arena, then come the nodes with memory of their own, then the static indices.
loops.func @slots indices (batch_n = 4) {
  %x = assign.node "x" constant : memref<4x8xf32>
  %h = assign.node "h" local at 64 : memref<8xf32>
  %v = assign.node "v" virtual : memref<8xf32>
  %y = assign.node "y" on_device : memref<8xf32>
  loops.nest "h" (i = 8) {
    %xv = loops.load %x[batch_n, i]
    loops.store %xv, %h[i]
  }
  loops.nest "y" (i = 8) {
    %hv = loops.load %h[i]
    loops.store %hv, %y[i]
  }
}
// CHECK-LABEL: define internal void @"slots.h"(ptr noalias %p0, ptr noalias %p1, i64 %s0)
// CHECK:         [[ROW:%.*]] = getelementptr [8 x float], ptr %p0, i64 %s0
// CHECK:         br label %loop1
// CHECK:       loop1:
// CHECK-NEXT:    [[I:%.*]] = phi i64 [ 0, %entry ], [ [[NEXT:%.*]], %loop1 ]
// CHECK-NEXT:    [[AT:%.*]] = getelementptr float, ptr [[ROW]], i64 [[I]]
// CHECK-NEXT:    [[X:%.*]] = load float, ptr [[AT]], align 4
// CHECK-NEXT:    [[OUT:%.*]] = getelementptr float, ptr %p1, i64 [[I]]
// CHECK-NEXT:    store float [[X]], ptr [[OUT]], align 4
// CHECK-NEXT:    [[NEXT]] = add nuw nsw i64 [[I]], 1
// CHECK-NEXT:    [[AGAIN:%.*]] = icmp ult i64 [[NEXT]], 8
// CHECK-NEXT:    br i1 [[AGAIN]], label %loop1, label %loop1.end
// CHECK-LABEL: define void @"routine slots"(ptr %args)
// CHECK-NEXT:    %a1.slot = getelementptr i64, ptr %args, i64 1
// CHECK-NEXT:    %a1 = load ptr, ptr %a1.slot, align 8
// CHECK-NEXT:    %a0.slot = getelementptr i64, ptr %args, i64 0
// CHECK-NEXT:    %a0 = load ptr, ptr %a0.slot, align 8
// CHECK-NEXT:    %a0.64 = getelementptr i8, ptr %a0, i64 64
// CHECK-NEXT:    %a3.slot = getelementptr i64, ptr %args, i64 3
// CHECK-NEXT:    %a3 = load i64, ptr %a3.slot, align 8
// CHECK-NEXT:    call void @"slots.h"(ptr %a1, ptr %a0.64, i64 %a3)
// CHECK-NEXT:    %a2.slot = getelementptr i64, ptr %args, i64 2
// CHECK-NEXT:    %a2 = load ptr, ptr %a2.slot, align 8
// CHECK-NEXT:    call void @"slots.y"(ptr %a0.64, ptr %a2)
// CHECK-NEXT:    ret void

// A register tile of 2 rows of 16 lanes: accumulators in registers, the bias and the rectifier on the whole tile.
loops.func @dense {
  %w = assign.node "w" on_device : memref<8x16xf32>
  %x = assign.node "x" on_device : memref<4x8xf32>
  %b = assign.node "b" on_device : memref<16xf32>
  %y = assign.node "y" on_device : memref<4x16xf32>
  loops.nest "y" (b = 4, o = 16) schedule <order = (o, b), rows = b : 2, lanes = o : 16> {
    %sum = loops.reduce add (i = 8) : f32 {
      %wv = loops.load %w[i, o]
      %xv = loops.load %x[b, i]
      %p = arith.mulf %wv, %xv : f32
      loops.yield %p
    }
    %bv = loops.load %b[o]
    %s = arith.addf %sum, %bv : f32
    %zero = arith.constant 0.0 : f32
    %r = arith.maximumf %s, %zero : f32
    loops.store %r, %y[b, o]
  }
}
// CHECK-LABEL: define internal void @"dense.y"
// CHECK-NEXT:  entry:
// CHECK-NEXT:    [[BIAS:%.*]] = load <16 x float>, ptr %p2, align 4
// CHECK-NEXT:    br label %loop1
// CHECK-NEXT:  loop1:
// CHECK-NEXT:    [[B:%.*]] = phi i64 [ 0, %entry ]
// CHECK:       loop2:
// CHECK-NEXT:    [[I:%.*]] = phi i64 [ 0, %loop1 ]
// CHECK-NEXT:    [[ACC0:%.*]] = phi <16 x float> [ splat (float 0x0000000000000000), %loop1 ], [ [[NEW0:%.*]], %loop2 ]
// CHECK-NEXT:    [[ACC1:%.*]] = phi <16 x float> [ splat (float 0x0000000000000000), %loop1 ], [ [[NEW1:%.*]], %loop2 ]
// CHECK:         [[W:%.*]] = load <16 x float>
// CHECK:         [[X0:%.*]] = load float
// CHECK:         [[X1:%.*]] = load float
// CHECK:         insertelement <16 x float> poison, float [[X0]], i64 0
// CHECK:         [[NEW0]] = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> [[W]], <16 x float> {{%.*}}, <16 x float> [[ACC0]])
// CHECK:         insertelement <16 x float> poison, float [[X1]], i64 0
// CHECK:         [[NEW1]] = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> [[W]], <16 x float> {{%.*}}, <16 x float> [[ACC1]])
// CHECK:       loop2.end:
// CHECK-NEXT:    [[S0:%.*]] = fadd <16 x float> [[NEW0]], [[BIAS]]
// CHECK-NEXT:    [[S1:%.*]] = fadd <16 x float> [[NEW1]], [[BIAS]]
// CHECK-NEXT:    [[C0:%.*]] = fcmp ogt <16 x float> splat (float 0x0000000000000000), [[S0]]
// CHECK-NEXT:    select <16 x i1> [[C0]], <16 x float> splat (float 0x0000000000000000), <16 x float> [[S0]]
// CHECK:         store <16 x float>
// CHECK:         store <16 x float>

// Lanes along a reduction: a masked step for the rest, and the halves of the vector at the end.
loops.func @total {
  %x = assign.node "x" on_device : memref<7xf32>
  %y = assign.node "y" on_device : memref<f32>
  loops.nest "total" () schedule <lanes = i : 4> {
    %sum = loops.reduce add (i = 7) : f32 {
      %v = loops.load %x[i]
      loops.yield %v
    }
    loops.store %sum, %y[]
  }
}
// CHECK-LABEL: define internal void @"total.total"
// CHECK:         [[V:%.*]] = load <4 x float>, ptr %p0, align 4
// CHECK-NEXT:    [[A:%.*]] = fadd <4 x float> splat (float 0x0000000000000000), [[V]]
// CHECK-NEXT:    [[AT:%.*]] = getelementptr float, ptr %p0, i64 4
// CHECK-NEXT:    [[REST:%.*]] = call <4 x float> @llvm.masked.load.v4f32.p0(ptr [[AT]], i32 4, <4 x i1> <i1 1, i1 1, i1 1, i1 0>, <4 x float> zeroinitializer)
// CHECK-NEXT:    [[MORE:%.*]] = fadd <4 x float> [[A]], [[REST]]
// CHECK-NEXT:    [[ALL:%.*]] = select <4 x i1> <i1 1, i1 1, i1 1, i1 0>, <4 x float> [[MORE]], <4 x float> [[A]]
// CHECK-NEXT:    shufflevector <4 x float> [[ALL]], <4 x float> poison, <2 x i32> <i32 0, i32 1>
// CHECK-NEXT:    shufflevector <4 x float> [[ALL]], <4 x float> poison, <2 x i32> <i32 2, i32 3>

// What an inner loop does not change is computed outside of it: here a whole reduction.
loops.func @hoisted {
  %x = assign.node "x" on_device : memref<4x8xf32>
  %y = assign.node "y" on_device : memref<4x8xf32>
  loops.nest "shifted" (b = 4, c = 8) {
    %m = loops.reduce max (d = 8) : f32 {
      %v = loops.load %x[b, d]
      loops.yield %v
    }
    %v = loops.load %x[b, c]
    %s = arith.subf %v, %m : f32
    loops.store %s, %y[b, c]
  }
}
// CHECK-LABEL: define internal void @"hoisted.shifted"
// CHECK:       loop1:
// CHECK:       loop2:
// CHECK:         fcmp ogt float
// CHECK:         fcmp uno float
// CHECK:       loop2.end:
// CHECK:       loop3:
// CHECK:         fsub float

// Equal nests are one function.
loops.func @twice {
  %a = assign.node "a" on_device : memref<8xf32>
  %b = assign.node "b" on_device : memref<8xf32>
  %c = assign.node "c" on_device : memref<8xf32>
  loops.nest "b" (i = 8) {
    %v = loops.load %a[i]
    loops.store %v, %b[i]
  }
  loops.nest "c" (j = 8) {
    %v = loops.load %b[j]
    loops.store %v, %c[j]
  }
}
// CHECK-NOT:   @"twice.b"
// CHECK:         call void @"slots.y"(ptr %a1, ptr %a2)
// CHECK:         call void @"slots.y"(ptr %a2, ptr %a3)

// A nest that is cut into tasks, of which each thread runs a part. The last block of a loop has the rest.
loops.func @shared indices (n = 4) {
  %x = assign.node "x" on_device : memref<4x37x96xf32>
  %y = assign.node "y" on_device : memref<37x96xf32>
  loops.nest "y" (i = 37, j = 96) schedule <parallel = (i : 8, j : 32), rows = i : 4, lanes = j : 16> {
    %v = loops.load %x[n, i, j]
    loops.store %v, %y[i, j]
  }
}
// CHECK-LABEL: define internal void @"shared.y"(ptr noalias %p0, ptr noalias %p1, i64 %s0, i64 %task)
// CHECK-NEXT:  entry:
// CHECK-NEXT:    [[J:%.*]] = urem i64 %task, 3
// CHECK-NEXT:    [[I:%.*]] = udiv i64 %task, 3
// CHECK-NEXT:    [[J0:%.*]] = mul i64 [[J]], 32
// CHECK-NEXT:    [[J1:%.*]] = add i64 [[J0]], 32
// CHECK-NEXT:    [[I0:%.*]] = mul i64 [[I]], 8
// CHECK-NEXT:    [[IN:%.*]] = add i64 [[I0]], 8
// CHECK-NEXT:    [[FITS:%.*]] = icmp ult i64 [[IN]], 36
// CHECK-NEXT:    [[I1:%.*]] = select i1 [[FITS]], i64 [[IN]], i64 36
// CHECK:       loop1:
// CHECK-NEXT:    phi i64 [ [[I0]], %entry ]
// CHECK:       loop2:
// CHECK-NEXT:    phi i64 [ [[J0]], %loop1 ]
// CHECK:         icmp ult i64 {{.*}}, [[J1]]
// CHECK:         icmp ult i64 {{.*}}, [[I1]]
// CHECK:       loop1.end:
// CHECK-NEXT:    [[LAST:%.*]] = icmp eq i64 [[I1]], 36
// CHECK-NEXT:    br i1 [[LAST]], label %[[REST:.*]], label %[[END:.*]]
// CHECK:       [[REST]]:
// CHECK:       [[END]]:
// CHECK-NEXT:    ret void
// CHECK-LABEL: define internal void @"share.ppi"(ptr %frame)
// CHECK-NEXT:    %team.slot = getelementptr i64, ptr %frame, i64 0
// CHECK-NEXT:    %team = load ptr, ptr %team.slot, align 8
// CHECK-NEXT:    %tasks.slot = getelementptr i64, ptr %frame, i64 2
// CHECK-NEXT:    %tasks = load i64, ptr %tasks.slot, align 8
// CHECK-NEXT:    %kernel.slot = getelementptr i64, ptr %frame, i64 1
// CHECK-NEXT:    %kernel = load ptr, ptr %kernel.slot, align 8
// CHECK-NEXT:    %a0.slot = getelementptr i64, ptr %frame, i64 3
// CHECK-NEXT:    %a0 = load ptr, ptr %a0.slot, align 8
// CHECK:         %a2 = load i64, ptr %a2.slot, align 8
// CHECK-NEXT:    %share = call { i64, i64 } @"share of thread"(ptr %team, i64 %tasks)
// CHECK:       run:
// CHECK-NEXT:    %task = phi i64 [ %start, %0 ], [ %task.next, %run ]
// CHECK-NEXT:    call void %kernel(ptr %a0, ptr %a1, i64 %a2, i64 %task)
// CHECK-LABEL: define void @"routine shared"(ptr %args)
// CHECK-NEXT:    %frame = alloca [6 x i64], align 8
// CHECK:         [[PLACE:%.*]] = getelementptr i64, ptr %frame, i64 0
// CHECK-NEXT:    store ptr %a4, ptr [[PLACE]], align 8
// CHECK:         store ptr @"shared.y", ptr {{.*}}, align 8
// CHECK:         store i64 15, ptr {{.*}}, align 8
// CHECK:         store i64 %a3, ptr {{.*}}, align 8
// CHECK-NEXT:    call void @"run by team"(ptr @"share.ppi", ptr %frame, ptr %a4)

// Equal steps on different rows of a node are one function, which gets the pointer to a row.
loops.func @rows {
  %x = assign.node "x" on_device : memref<3x8xf32>
  %y = assign.node "y" on_device : memref<2x8xf32>
  loops.nest "a" (i = 8) {
    %v = loops.load %x[1, i]
    %w = loops.load %x[2, i]
    %s = arith.addf %v, %w : f32
    loops.store %s, %y[1, i]
  }
  loops.nest "b" (i = 8) {
    %v = loops.load %x[0, i]
    %w = loops.load %x[1, i]
    %s = arith.addf %v, %w : f32
    loops.store %s, %y[0, i]
  }
}
// CHECK-LABEL: define internal void @"rows.a"(ptr noalias %p0, ptr noalias %p1)
// CHECK-NOT:   define internal
// CHECK-LABEL: define void @"routine rows"(ptr %args)
// CHECK:         %a1.32 = getelementptr i8, ptr %a1, i64 32
// CHECK:         %a2.32 = getelementptr i8, ptr %a2, i64 32
// CHECK-NEXT:    call void @"rows.a"(ptr %a1.32, ptr %a2.32)
// CHECK-NEXT:    call void @"rows.a"(ptr %a1, ptr %a2)

// Only several threads need the runtime.
// CHECK-LABEL: define internal void @"run by team"(ptr %share, ptr %frame, ptr %team)
// CHECK:         %several = icmp ugt i64 %threads, 1
// CHECK:       fork:
// CHECK:         call void %parallel(ptr %share, ptr %frame, i32 %count, i32 0)
// CHECK:       alone:
// CHECK-NEXT:    call void %share(ptr %frame)

// CHECK: declare <4 x float> @llvm.masked.load.v4f32.p0(ptr, i32, <4 x i1>, <4 x float>)
// CHECK: attributes #0 = { nounwind "prefer-vector-width"="512" }
