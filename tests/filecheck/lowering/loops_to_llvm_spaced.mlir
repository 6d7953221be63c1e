// RUN: ocannl-opt %s --cpu x86-64-v3 -t llvm | filecheck %s

// Every other element of two rows: two vectors of neighbours, of which the second one ends with the last element.
loops.func @evens {
  %x = assign.node "x" constant : memref<4x16xf32>
  %y = assign.node "y" on_device : memref<4x8xf32>
  loops.nest "y" (i = 4, j = 8) schedule <order = (i, j), lanes = j : 8> {
    %v = loops.load %x[i, 2*j + 1]
    loops.store %v, %y[i, j]
  }
}
// CHECK-LABEL: @"evens.y"
// CHECK:      [[ROW:%.*]] = getelementptr [16 x float], ptr %p0
// CHECK-NEXT: [[LOW:%.*]] = load <8 x float>, ptr [[ROW]], align 4
// CHECK-NEXT: [[NEXT:%.*]] = getelementptr float, ptr [[ROW]], i64 7
// CHECK-NEXT: [[HIGH:%.*]] = load <8 x float>, ptr [[NEXT]], align 4
// CHECK-NEXT: shufflevector <8 x float> [[LOW]], <8 x float> [[HIGH]], <8 x i32> <i32 0, i32 2, i32 4, i32 6, i32 9, i32 11, i32 13, i32 15>

// From the last element on, in six lanes of eight.
loops.func @turned {
  %x = assign.node "x" constant : memref<12xf32>
  %y = assign.node "y" on_device : memref<6xf32>
  loops.nest "y" (j = 6) schedule <order = (j), lanes = j : 8> {
    %v = loops.load %x[-2*j + 11]
    loops.store %v, %y[j]
  }
}
// CHECK-LABEL: @"turned.y"
// CHECK:      [[FIRST:%.*]] = getelementptr float, ptr %p0, i64 -10
// CHECK-NEXT: [[LOW:%.*]] = load <6 x float>, ptr [[FIRST]], align 4
// CHECK-NEXT: [[NEXT:%.*]] = getelementptr float, ptr %p0, i64 -5
// CHECK-NEXT: [[HIGH:%.*]] = load <6 x float>, ptr [[NEXT]], align 4
// CHECK-NEXT: [[FOUND:%.*]] = shufflevector <6 x float> [[LOW]], <6 x float> [[HIGH]], <6 x i32> <i32 11, i32 9, i32 7, i32 4, i32 2, i32 0>
// CHECK-NEXT: shufflevector <6 x float> [[FOUND]], <6 x float> zeroinitializer, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 6>

// Two stores that fill each other's gaps are whole vectors.
loops.func @pairs {
  %x = assign.node "x" constant : memref<2x8xf32>
  %y = assign.node "y" on_device : memref<8x2xf32>
  loops.nest "y" (j = 8) schedule <order = (j), lanes = j : 8> {
    %v = loops.load %x[0, j]
    %w = loops.load %x[1, j]
    loops.store %w, %y[j, 1]
    loops.store %v, %y[j, 0]
  }
}
// CHECK-LABEL: @"pairs.y"
// CHECK:      [[EVEN:%.*]] = load <8 x float>, ptr %p0
// CHECK:      [[ODD:%.*]] = load <8 x float>
// CHECK-NEXT: [[LOW:%.*]] = shufflevector <8 x float> [[EVEN]], <8 x float> [[ODD]], <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 2, i32 10, i32 3, i32 11>
// CHECK-NEXT: [[HIGH:%.*]] = shufflevector <8 x float> [[EVEN]], <8 x float> [[ODD]], <8 x i32> <i32 4, i32 12, i32 5, i32 13, i32 6, i32 14, i32 7, i32 15>
// CHECK-NEXT: store <8 x float> [[LOW]], ptr %p1
// CHECK:      store <8 x float> [[HIGH]]

// What is read between two stores may be what the first one left.
loops.func @between {
  %y = assign.node "y" on_device : memref<8x2xf32>
  loops.nest "y" (j = 8) schedule <order = (j), lanes = j : 8> {
    %v = loops.load %y[j, 1]
    loops.store %v, %y[j, 0]
    %w = loops.load %y[j, 0]
    loops.store %w, %y[j, 1]
  }
}
// CHECK-LABEL: @"between.y"
// CHECK:     extractelement <8 x float>
// CHECK-NOT: store <8 x float>

// Also where a sum reads it.
loops.func @between_in_a_sum {
  %x = assign.node "x" constant : memref<8xf32>
  %y = assign.node "y" on_device : memref<8x2xf32>
  loops.nest "y" (j = 8) schedule <order = (j), lanes = j : 8> {
    %v = loops.load %x[j]
    loops.store %v, %y[j, 0]
    %w = loops.reduce add (k = 2) : f32 {
      %e = loops.load %y[j, k]
      loops.yield %e
    }
    loops.store %w, %y[j, 1]
  }
}
// CHECK-LABEL: @"between_in_a_sum.y"
// CHECK:     extractelement <8 x float>
// CHECK-NOT: store <8 x float>
