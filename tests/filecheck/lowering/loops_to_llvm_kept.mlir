// RUN: ocannl-opt %s -t llvm | filecheck %s

// A kept copy is made where the number of writes before its source is another than that of the last copy, or where
// writes are not counted.
loops.func @keeps {
  %w = assign.node "w" on_device because "parameter" : memref<128x128xf32>
  %c = assign.node "w.packed" kept because "contiguous copy for y" : memref<128x128xf32>
  %y = assign.node "y" on_device : memref<128xf32>
  loops.nest "w.packed" (i = 128, o = 128) {
    %v = loops.load %w[o, i]
    loops.store %v, %c[i, o]
  }
  loops.nest "y" (o = 128) {
    %v = loops.load %c[0, o]
    loops.store %v, %y[o]
  }
}
// CHECK-LABEL: define internal void @"keeps.w.packed"(ptr noalias %p0, ptr noalias %p1)
// CHECK:         [[VERSION:%.*]] = getelementptr i8, ptr %p0, i64 -64
// CHECK-NEXT:    [[COPIED:%.*]] = getelementptr i8, ptr %p1, i64 -56
// CHECK-NEXT:    [[NOW:%.*]] = load i64, ptr [[VERSION]], align 8
// CHECK-NEXT:    [[BEFORE:%.*]] = load i64, ptr [[COPIED]], align 8
// CHECK-NEXT:    [[CHANGED:%.*]] = icmp ne i64 [[NOW]], [[BEFORE]]
// CHECK-NEXT:    [[UNKNOWN:%.*]] = icmp slt i64 [[NOW]], 1
// CHECK-NEXT:    [[STALE:%.*]] = or i1 [[CHANGED]], [[UNKNOWN]]
// CHECK-NEXT:    br i1 [[STALE]], label %if1, label %if1.end
// CHECK:         store i64 [[NOW]], ptr [[COPIED]], align 8
// CHECK-NEXT:    br label %if1.end
