# needs: skorch, sklearn
"""skorch in a scikit-learn pipeline, fitted and then searched over."""
import numpy as np
import torch
from sklearn.datasets import make_classification
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier
from skorch.callbacks import EpochScoring
from torch import nn

torch.manual_seed(0)
np.random.seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
X, y = make_classification(600, 20, n_informative=10, random_state=0)
X, y = X.astype(np.float32), y.astype(np.int64)

# %%
class ClassifierModule(nn.Module):
    def __init__(self, num_units=24, nonlin=nn.functional.relu, dropout=0.2):
        super().__init__()
        self.nonlin = nonlin
        self.dense0, self.dropout, self.dense1 = nn.Linear(20, num_units), nn.Dropout(dropout), nn.Linear(num_units, 2)

    def forward(self, X):
        return self.dense1(self.dropout(self.nonlin(self.dense0(X))))


net = NeuralNetClassifier(
    ClassifierModule, criterion=nn.CrossEntropyLoss, max_epochs=12, lr=0.05, device=device, verbose=0,
    callbacks=[("f1", EpochScoring("f1", lower_is_better=False))],
)
pipe = Pipeline([("scale", StandardScaler()), ("net", net)])

# %% train
pipe.fit(X, y)
history = [(row["epoch"], round(row["train_loss"], 4), round(row["valid_acc"], 4)) for row in pipe["net"].history]
for row in history[::4]:
    print(*row)

# %%
print(len(history), round(pipe.score(X, y), 2))
